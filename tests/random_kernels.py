"""Texts of random kernels around products, by seed, and arguments for them.

Inputs are small integers and results of products are clipped before they meet again, so sums are
exact in whatever order they are made, and what comes out has to be equal to the last bit.
"""

from __future__ import annotations

import importlib.util
import os
import random
from pathlib import Path

import numpy as np

import kdsl

HEAD = """
import kdsl
from kdsl import Out, dot, f16, f32, i64, inf, maximum, minimum, where

M, N, D, K = kdsl.dims("M N D K")


@kdsl.inline
def clipped(x):
    return maximum(minimum(x, 8), -8)

"""
MASKS = (
    "i >= j", "i < j", "i + w >= j", "j - i < w", "j < w", "(j <= i) & (j > i - w)", "i != j",
    "j % 2 == 0", "w > 3",
)  # fmt: skip


class Writer:
    """Lines of one kernel; `known` are values by name, with their axes ("", "m", "n", "mn", "md").

    Attributes:
        rows, cols: of the fragments that statements are about now.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.known: dict[str, str] = {}
        self.count = 0
        self.depth = 2

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def let(self, text: str, axes: str) -> str:
        self.count += 1
        name = f"e{self.count}"
        self.line(f"{name} = {text}")
        self.known[name] = axes
        return name

    def pick(self, *axes: str) -> str:
        """A value with some of these axes; the newest are the likeliest."""
        found = [n for n, a in self.known.items() if a in axes]
        return found[-1 - min(int(self.random.expovariate(0.6)), len(found) - 1)]

    def as_axes(self, name: str, axes: str) -> str:
        """The value as it meets others that have `axes`."""
        return f"{name}[:, None]" if self.known[name] == "m" and len(axes) == 2 else name

    def join(self, *names: str) -> str:
        return "".join(a for a in "mnd" if any(a in self.known[n] for n in names))

    # ---- statements about elements

    def element(self, axes: tuple[str, ...]) -> None:
        a, b = self.pick(*axes), self.pick(*axes)
        both = self.join(a, b)
        x, y = self.as_axes(a, both), self.as_axes(b, both)
        kind = self.random.choice(["+", "-", "*", "max", "min", "neg", "abs", "where", "mask"])
        match kind:
            case "+" | "-" | "*":
                self.let(f"clipped({x} {kind} {y})", both)
            case "max" | "min":
                self.let(f"{kind}imum({x}, {y})", both)
            case "neg":
                self.let(f"-{a}", self.known[a])
            case "abs":
                self.let(f"abs({a})", self.known[a])
            case "where":
                self.let(
                    f"where({x} > {y}, {x}, {self.random.choice([y, '0', '1', '-inf'])})", both
                )
            case "mask":
                self.mask()

    def mask(self) -> None:
        full = "mn" if "mn" in self.known.values() else "md"
        a = self.pick(full)
        other = self.random.choice(["0", "-inf", "2"])
        self.let(f"where({self.random.choice(MASKS)}, {a}, {other})", full)

    def reduced(self, full: str) -> str:
        a = self.pick(full)
        fn = self.random.choice(["max", "sum", "min"])
        # What is infinite would make every later sum so.
        return self.let(f"clipped({a}).{fn}(axis=1)", "m")


def attention_like(seed: int) -> str:
    """Two products, with rows of the first reduced and carried along the keys."""
    w = Writer(seed)
    r = w.random
    w.line("qm, i = q[m], m.index[:, None]")
    w.known |= {"scale": "", "rm": "m"}
    w.line("rm = r[m]")
    rows = [f"c{n}" for n in range(r.randint(1, 3))]
    for c in rows:
        w.line(f"{c} = kdsl.{r.choice(['zeros(m)', 'full(m, -inf)', 'full(m, 1)'])}")
        w.known[c] = "m"
    w.line("acc = kdsl.zeros(m, D)")
    w.line(f"for n in kdsl.tiles(N, size={r.choice([32, 64])}):")
    w.depth += 1
    before = dict(w.known)
    w.line("j, cn = n.index, c[n]")
    w.known["cn"] = "n"
    w.let("dot(qm, k[n].T)", "mn")
    for _ in range(r.randint(1, 7)):
        if r.random() < 0.3:
            w.reduced("mn")
        else:
            w.element(("mn", "mn", "mn", "m", "n", ""))
    p = w.let(f"clipped({w.pick('mn')})", "mn")
    fix = w.let(f"minimum(maximum({w.pick('m')}, -1), 1)", "m")
    w.line(f"acc = {r.choice(['acc', f'acc * {fix}[:, None]'])} + dot({p}.astype(f16), v[n])")
    for _ in range(r.randint(0, 2)):
        w.reduced("mn") if r.random() < 0.6 else w.element(("m",))
    news = [(c, w.pick("m")) for c in rows]
    kinds = ["{1}", "clipped({0} + {1})", "maximum({0}, {1})", "clipped({0} * {1})"]
    w.line(", ".join(rows) + " = " + ", ".join(r.choice(kinds).format(c, x) for c, x in news))
    w.depth -= 1
    w.known = before | {"acc": "md"}
    w.line("j = kdsl.arange(D)")
    for _ in range(r.randint(0, 4)):
        w.element(("md", "md", "m", ""))
    w.line(f"o[m] = {w.as_axes(w.pick('md'), 'md')}")
    w.line(f"l[m] = {w.pick('m')}")
    head = (
        f"@kdsl.kernel\ndef kernel_{seed}(q: f16[M, D], k: f16[N, D], v: f16[N, D], r: f32[M], "
        "c: f32[N], scale: f32, w: i64, o: Out[f32[M, D]], l: Out[f32[M]]):\n"
        "    for m in kdsl.parallel(kdsl.tiles(M)):\n"
    )
    return head + "\n".join(w.lines) + "\n"


def product_like(seed: int) -> str:
    """One product along a loop, and what is done with its elements."""
    w = Writer(seed)
    r = w.random
    turned = r.random() < 0.3
    w.line("i, j = m.index[:, None], n.index")
    w.line("acc = kdsl.zeros(m, n)")
    w.line("for kk in kdsl.tiles(K):")
    w.line(f"    acc += dot(a[m, kk], {'b[n, kk].T' if turned else 'b[kk, n]'})")
    w.line("rm, cn, rest = r[m], c[n], x[m, n].astype(f32)")
    w.known |= {"scale": "", "rm": "m", "cn": "n", "acc": "mn", "rest": "mn"}
    for _ in range(r.randint(1, 8)):
        w.element(("mn", "mn", "m", "n", ""))
    w.line(f"o[m, n] = {w.pick('mn')}")
    kind = r.choice(["f16", "f32"])
    w.line(f"p[m, n] = clipped({w.pick('mn')}).astype({kind})")
    b = "f16[N, K]" if turned else "f16[K, N]"
    head = (
        f"@kdsl.kernel\ndef kernel_{seed}(a: f16[M, K], b: {b}, x: f16[M, N], r: f32[M], "
        f"c: f32[N], scale: f32, w: i64, o: Out[f32[M, N]], p: Out[{kind}[M, N]]):\n"
        "    for m, n in kdsl.parallel(kdsl.tiles(M), kdsl.tiles(N)):\n"
    )
    return head + "\n".join(w.lines) + "\n"


def text(seed: int) -> str:
    """A module with the function `kernel_<seed>`."""
    return HEAD + "\n" + (attention_like if seed % 2 else product_like)(seed)


def kernel(seed: int, folder: Path) -> kdsl.Kernel:
    """The kernel itself, in a file of its own."""
    file = folder / f"random_kernel_{seed}.py"
    file.write_text(text(seed))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, f"kernel_{seed}")


#: Seeds of a run of the tests: others with each round of tools/fuzz.py.
SEEDS = range(first := int(os.environ.get("KDSL_TEST_SEED", "0")), first + 4)
#: (M, N, K) of calls; D is 32.
SIZES = ((37, 70, 40), (130, 65, 72), (5, 1, 3), (3, 0, 16), (2, 5, 0))


def arguments(kernel: kdsl.Kernel, sizes: tuple[int, int, int], seed: int) -> dict[str, object]:
    """Small integers for the inputs of such a kernel, by name."""
    rng = np.random.default_rng([seed, *sizes])
    dims = dict(zip("MNK", sizes, strict=True)) | {"D": 32}
    values: dict[str, object] = {"scale": 2.0, "w": int(rng.integers(-5, 80))}
    for p in kernel._source.signature.parameters:
        if p.is_tensor and p.kind == "in":
            small = rng.integers(-3, 4, [dims[str(e)] for e in p.tensor.shape])
            values[p.name] = small.astype(
                {"f16": np.float16, "f32": np.float32}[p.tensor.dtype.name]
            )
    return values


def results(kernel: kdsl.Kernel, values: dict[str, object]) -> dict[str, np.ndarray]:
    """What NumPy makes of them, by the output's name."""
    with np.errstate(all="ignore"):
        outs = kernel.reference(**values)
    names = [p.name for p in kernel._source.signature.parameters if p.kind == "out"]
    return dict(zip(names, outs, strict=True))
