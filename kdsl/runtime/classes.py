"""The classes that the core makes of objects."""

from __future__ import annotations

from kdsl.runtime.containers import Array, Dict, List, Map
from kdsl.runtime.module_object import ModuleObject

#: By TVM FFI's type index.
CLASSES: dict[int, type] = {71: Array, 72: Map, 73: ModuleObject, 75: List, 76: Dict}
