"""Code for CUDA: the kernels of a module as one translation unit."""

from kdsl.codegen.cuda.source import device_source

__all__ = ["device_source"]
