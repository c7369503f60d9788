"""Printing of CPU kernels from their plans."""
