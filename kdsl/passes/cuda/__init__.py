"""Passes and plans of the CUDA target."""
