"""Machine code of CUDA kernels, read without a GPU."""
