"""The door to JAX: results in CPU memory as JAX arrays."""

from __future__ import annotations

from typing import Any

import jax

_CPU = 1  # DLPack's device type


def from_tensor(tensor: Any) -> jax.Array:
    """A JAX array over the memory of a `kdsl.runtime.Tensor`; zero copy, 64-byte aligned.

    `jax.dlpack.from_dlpack` first asks the device for a stream, which on the CPU costs an
    exception; jaxlib's own function is 20 times faster, where it still has the form used here.
    """
    if _import is None or tensor.__dlpack_device__()[0] != _CPU:
        return jax.dlpack.from_dlpack(tensor)
    array: jax.Array = _import(tensor.__dlpack__(), _device, None, None, _CPU)
    return array


def is_whole(sharding: jax.sharding.Sharding) -> bool:
    """Whether each device of an array has all of it."""
    return len(sharding.device_set) == 1 or sharding.is_fully_replicated


def _quick_import() -> Any:
    """jaxlib's import of a capsule if it does what `from_dlpack` does, else None."""
    import jaxlib

    quick = getattr(getattr(jaxlib, "_jax", None), "dlpack_managed_tensor_to_buffer", None)
    if quick is None:
        return None
    sample = jax.numpy.arange(3, dtype="int32")
    try:
        array = quick(sample.__dlpack__(), _device, None, None, _CPU)
        same = isinstance(array, jax.Array) and array.tolist() == [0, 1, 2]
    except Exception:  # another jaxlib, another signature
        return None
    return quick if same else None


_device = jax.local_devices(backend="cpu")[0]
_import = _quick_import()


def _quick_export() -> Any:
    """jaxlib's export of an array to a capsule if it does what `__dlpack__` does, else None.

    The method costs five times as much: it looks at shardings, versions and devices first.
    """
    import jaxlib

    quick = getattr(getattr(jaxlib, "_jax", None), "buffer_to_dlpack_managed_tensor", None)
    if quick is None or _import is None:
        return None
    sample = jax.numpy.arange(3, dtype="int32")
    try:
        array = _import(quick(sample), _device, None, None, _CPU)
        same = array.tolist() == [0, 1, 2]
    except Exception:  # another jaxlib, another signature
        return None
    return quick if same else None


#: export(array) -> DLPack capsule of an array that lies in one piece, or None.
export = _quick_export()
