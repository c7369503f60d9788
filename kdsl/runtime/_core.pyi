import inspect
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

# A mapping, a key and the value there; a closure cell, None and its contents.
Place: TypeAlias = tuple[object, str | None, object]
# What kind, of which argument, whether the default does too, which axis, which value.
Condition: TypeAlias = tuple[
    Literal["dtype", "size", "int", "bool", "given", "absent", "object"], int, bool, int, object
]
Row: TypeAlias = tuple[Function, tuple[Condition, ...]]

class Library:
    def __new__(cls, path: str) -> Library: ...
    @property
    def path(self) -> str: ...
    def function(self, name: str) -> Function | None: ...
    def text(self, symbol: str) -> str | None: ...

class Function:
    release_gil: bool
    @property
    def __name__(self) -> str: ...
    @property
    def __signature__(self) -> inspect.Signature | None: ...
    @property
    def metadata(self) -> dict[str, Any]: ...
    @property
    def library(self) -> Library | None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class Dispatcher:
    """Calls the function that its table has for the arguments; anything else goes to Python."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def _set_otherwise(
        self, callable: Callable[[tuple[object, ...], dict[str, object]], object], /
    ) -> None:
        """Let callable(args, kwargs) answer calls that the table does not."""

    def _set_table(self, places: tuple[Place, ...], rows: tuple[Row, ...], /) -> None:
        """What was compiled, and where what it was compiled from is found; no rows: nothing.

        Raises:
            OverflowError: a value has no 64 bits.
        """

class Tensor:
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def ndim(self) -> int: ...
    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def use_provider(path: str | None) -> str: ...
def provider() -> str: ...
def mirrors() -> dict[str, int]: ...
def use_mirrors(on: bool, /) -> None: ...
