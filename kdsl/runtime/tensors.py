"""Tensors of the runtime, made from anyone's arrays."""

from __future__ import annotations

from kdsl.runtime import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kdsl.runtime._core import Tensor


def from_dlpack(
    array: object, *, require_contiguous: bool = False, require_alignment: int = 0
) -> Tensor:
    """A Tensor over the memory of an array of NumPy, Torch, JAX or any DLPack producer.

    Args:
        array: what keeps the memory; nothing is copied.
        require_contiguous: refuse an array whose elements do not lie row after row without gaps.
        require_alignment: refuse an array whose first element's address is no multiple of it.

    Raises:
        TypeError: this is no array, or its element type has no DLPack code.
        ValueError: it is not contiguous or not aligned, or it is a view that is only lazily
            conjugated or negated.

    Example:
        >>> import numpy
        >>> from_dlpack(numpy.ones((2, 3), "float32"), require_contiguous=True)
        <kdsl.runtime.Tensor f32[2, 3]>
    """
    tensor = _core.from_dlpack(array)
    if require_contiguous and not tensor.is_contiguous():
        raise ValueError(
            f"from_dlpack: expected a contiguous array, got {tensor.dtype}"
            f"{list(tensor.shape)} with strides {list(tensor.strides)}; pass a copy"
        )
    if require_alignment and tensor.data_ptr % require_alignment:
        raise ValueError(
            f"from_dlpack: expected memory aligned to {require_alignment} bytes, got address "
            f"{tensor.data_ptr:#x}; pass a copy"
        )
    return tensor
