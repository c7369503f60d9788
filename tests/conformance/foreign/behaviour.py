"""What apache-tvm-ffi's own Python package does, as text; the library underneath must not show.

python behaviour.py FOREIGN
"""

from __future__ import annotations

import gc
import sys

import numpy as np
import tvm_ffi


def show(name, call, *args):
    """A line with the value, or with the error's class and text."""
    try:
        print(name, "->", call(*args))
    except Exception as err:
        print(name, "raises", type(err).__name__, str(err).replace(sys.argv[1], "FOREIGN"))


def dtypes():
    names = "bool int8 uint64 float16 bfloat16 float8_e4m3fn float8_e5m2 float4_e2m1fn float32x4"
    others = "int8xvscalex4 handle float6_e2m3fn float8_e8m0fnu int4 uint1 i32 f16 bf16 fp8_e5m2"
    for name in f"{names} {others} float int void".split():
        show(name, lambda n=name: (str(tvm_ffi.dtype(n)), tvm_ffi.dtype(n).itemsize))
    for wrong in ("int8x0", "float8", "float32x", "int7y", "nothing", "int300x", "float32 "):
        try:
            tvm_ffi.dtype(wrong)
        except ValueError:
            print(wrong, "raises ValueError")
        else:
            print(wrong, "is a dtype")
    show("device", lambda: [str(tvm_ffi.device(d)) for d in ("cpu", "cuda:1", "rocm:2")])


def containers():
    array = tvm_ffi.Array([1, "two", 3.0, None, [4, 5]])
    show("array", lambda: (repr(array), len(array), array[-1][0], list(array[1:3]), "two" in array))
    show("array end", lambda: array[9])
    show("equal", lambda: (array == tvm_ffi.Array([1, "two", 3.0, None, [4, 5]]), array == [1]))
    several = tvm_ffi.List([3, 1])
    several.append(2)
    several.insert(0, 9)
    several.extend([7, 8])
    several[1:3] = [5]
    several.reverse()
    show("list", lambda: (repr(several), several.pop(), several.pop(0), list(several)))
    words = {f"key number {i}": i for i in range(50)}
    show("map", lambda: dict(tvm_ffi.Map(words).items()) == words)
    pairs = tvm_ffi.Dict({"a": 1, 2: "b"})
    pairs["c"] = 3
    del pairs["a"]
    show("dict", lambda: (repr(pairs), sorted(map(str, pairs)), pairs.get("a", 0), "c" in pairs))
    show("dict missing", lambda: pairs["a"])
    show("shape", lambda: (tvm_ffi.Shape((2, 3)), tuple(tvm_ffi.Shape((2, 3)))))


def functions():
    add = tvm_ffi.convert_func(lambda a, b: a + b)
    show("call", lambda: (add(1, 2), add("a", "b" * 20), add(0.5, 1)))
    tvm_ffi.register_global_func("behaviour.twice", lambda v: v * 2)
    show("global", lambda: tvm_ffi.get_global_func("behaviour.twice")(21))
    show("again", lambda: tvm_ffi.register_global_func("behaviour.twice", lambda v: v))
    tvm_ffi.remove_global_func("behaviour.twice")
    show("removed", lambda: tvm_ffi.get_global_func("behaviour.twice", allow_missing=True))
    show("unknown", lambda: tvm_ffi.get_global_func("behaviour.none"))
    for value in (None, True, 1, -(2**63), 2**70, 1.5, "", "seven b", "eight by", b"", b"x" * 9):
        show(repr(value), lambda v=value: repr(tvm_ffi.convert_func(lambda x: x)(v)))

    def fail():
        raise KeyError("inside")

    show("error", tvm_ffi.convert_func(fail))


def tensors():
    x = tvm_ffi.from_dlpack(np.arange(6, dtype="float32").reshape(2, 3))
    show("tensor", lambda: (str(x.dtype), tuple(x.shape), str(x.device), repr(x)))
    show("back", lambda: np.from_dlpack(x).tolist())


def modules(path):
    module = tvm_ffi.load_module(path)
    greet, lengths = module.greet, module.lengths
    show("kind", lambda: module.kind)
    show("has", module.implements_function, "greet")
    show("has not", module.implements_function, "none")
    show("greet", greet, "a long name")
    show("missing", lambda: module.none)
    show("error", module["raise"], "IndexError", "on purpose")
    show("wrong", module.add_one, 1)
    show("lengths", lambda: sorted((str(k), v) for k, v in lengths(["a", "bcd"]).items()))
    show("global", lambda: tvm_ffi.get_global_func("foreign.triple")(4))
    show("metadata", lambda: tvm_ffi.get_global_func_metadata("foreign.triple"))
    show("import", module.import_module, module)


def outliving(path):
    add = tvm_ffi.load_module(path).adder(5)
    gc.collect()
    show("outlives", add, 1)


if __name__ == "__main__":
    dtypes()
    containers()
    functions()
    tensors()
    modules(sys.argv[1])
    outliving(sys.argv[1])
