"""The packed-function runtime: load a module, call its functions with anyone's arrays.

Example:
    >>> import kdsl.runtime
    >>> module = kdsl.runtime.load_module("attention.so")    # doctest: +SKIP
    >>> o, lse = module.attention(q, k, v, 0.125)             # doctest: +SKIP

NumPy, Torch and JAX arrays come back as the kind that went in. This package imports nothing but
the standard library; frameworks are recognised by the types of the arguments.
"""

from kdsl.runtime._core import Dispatcher, Function, Tensor
from kdsl.runtime.module import Module, load_module

__all__ = ["Dispatcher", "Function", "Module", "Tensor", "load_module"]
