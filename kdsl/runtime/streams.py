"""Say on which stream packed functions queue their work."""

from __future__ import annotations

from kdsl.runtime import _core
from kdsl.runtime.values import Device, device_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


class use_stream:  # noqa: N801 - it is used like a function
    """Queue the work of packed functions for a device on a stream, in this thread.

    `stream` is a stream of Torch or CuPy, anything with `__cuda_stream__`, a handle (int or
    ctypes.c_void_p), or None for the default stream. The device is the stream's own, where it
    says one, else "cuda:0". Without this the framework of the first tensor on the device says
    which stream is current.

    Example:
        >>> with use_stream(0x1234, device="cuda:1"):
        ...     hex(current_stream("cuda:1"))
        '0x1234'
        >>> current_stream("cuda:1")
        0
    """

    def __init__(self, stream: object, device: object = None) -> None:
        """Raises: TypeError: this is no stream. ValueError: no such device."""
        self._handle = stream_handle(stream)
        self._device = _device_of(stream) if device is None else Device(device)
        self._before: list[int | None] = []

    def __enter__(self) -> use_stream:
        self._before.append(_core.set_stream(*self._device, self._handle))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _core.set_stream(*self._device, self._before.pop())


def current_stream(device: object = "cuda:0") -> int:
    """The handle of the stream that `use_stream` or the call that runs has set; 0: the default."""
    return _core.get_stream(*device_code(device))


def stream_handle(stream: object) -> int:
    """The handle of a stream.

    Example:
        >>> import ctypes
        >>> stream_handle(ctypes.c_void_p(7)), stream_handle(None)
        (7, 0)

    Raises:
        TypeError: this is no stream.
    """
    if stream is None:
        return 0
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    if type(stream).__name__ == "c_void_p":
        value: int | None = stream.value  # type: ignore[attr-defined]
        return value or 0
    handle: int | None = _core.stream_handle(stream)
    if handle is None:
        raise TypeError(
            "use_stream: expected a stream of Torch or CuPy, an object with `__cuda_stream__`, "
            f"a handle or None, got {type(stream).__qualname__}"
        )
    return handle


def _device_of(stream: object) -> Device:
    device = getattr(stream, "device", None)
    if device is not None:
        return Device(device)
    index = getattr(stream, "device_id", None)  # CuPy's
    return Device("cuda", index if isinstance(index, int) and index >= 0 else 0)
