"""What to do about errors in a kernel whose texts do not say it, by kind of message.

A kind is a message with `_` for what stands in backquotes and for numbers.
"""

from __future__ import annotations

NOTES: dict[str, str] = {
    "the default of _ does not have its type": (
        "A default is what a caller could pass: True or False for a bool, an integer for `int` and "
        "the integer dtypes, a number for the floats."
    ),
    "a tensor is written outside kdsl.parallel": (
        "Put the assignment into a loop: `for _ in kdsl.parallel(1):` if there is just one."
    ),
    "_: too many positional arguments": (
        "Helpers are called as Python calls them; the text after the colon is Python's own."
    ),
    "a tile moves by an integer": (
        "The offset of a tile is an integer, a dim, or a scalar of an integer dtype. To add to its "
        "elements, index with it first: `x[m] + x[i]`."
    ),
    "a value has no _": (
        "Values have the reductions, `astype`, `T`, `shape`, `ndim` and `dtype`. Other functions "
        "are called: `kdsl.exp(v)`."
    ),
    "division by zero": "Both numbers are known at compile time; correct the divisor.",
    "_ is not defined": (
        "The name is no parameter or variable of the kernel, of the function around it, or of its "
        "module. Import or define it before the kernel is first called."
    ),
    "_ is of values with one or two axes": (
        "Index the tensor so that one or two axes are left; loop over the others."
    ),
    "_ needs _": "Give the missing argument.",
    "only a tuple is unpacked": (
        "A tile or scalar has no parts to name. Give each name its own expression."
    ),
    "_ takes dims and kdsl.tiles(...)": (
        "Walk the size of an axis, `kdsl.parallel(N)`, and index the tensor in the body."
    ),
    "there is no axis _": "Axes count from 0; a scalar has none.",
    "this is no number": (
        "An operand is a value, a dim or a Python number; modules, strings, tuples and functions "
        "are not."
    ),
    "too many indices for _": "Leave the last index out, or give the tensor another axis.",
    "_ holds bool, no numbers": "Store counts or sums in a tensor of i32 or a float.",
    "the value does not fit into _": (
        "Reduce or index the value so that it has no axis that the place lacks; axes of length 1 "
        "fit any."
    ),
    "_ has no parameter _": "Leave it out.",
    "this is not indexed": (
        "Only tensors and values have elements. A tensor that a caller may leave out is None where "
        "it was: ask `w is not None` first."
    ),
    "one loop variable stands without a comma": "Write `for i in kdsl.parallel(N):`.",
}
