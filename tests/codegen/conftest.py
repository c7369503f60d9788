"""The C++ unit of tests/ffi, for what Python and C++ both know."""

from tests.ffi.conftest import unit as unit
from tests.ffi.conftest import unit_path as unit_path
