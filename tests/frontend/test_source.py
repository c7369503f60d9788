"""Capture: the text is read once, is that of this very function, and is UTF-8."""

from __future__ import annotations

import linecache
from types import SimpleNamespace

import numpy as np
import pytest

from kdsl import lang as kdsl
from kdsl.errors import KernelSyntaxError, KernelTypeError
from kdsl.frontend import capture, lower
from kdsl.frontend.reference import reference
from kdsl.ir.parser import parse
from kdsl.ir.printer import show
from kdsl.ir.verify import verify
from kdsl.lang import Out, Static, f32
from tests.frontend.refusal import NAMES, body, define

N = kdsl.dims("N")[0]
ONES = np.ones(3, np.float32)


def module(tmp_path, text, name="author"):
    """A module with this text, imported from a file."""
    file = tmp_path / f"{name}.py"
    file.write_text(text, encoding="utf-8")
    namespace = dict(NAMES) | {"__name__": name, "__file__": str(file)}
    exec(compile(text, str(file), "exec"), namespace)
    return file, namespace


def test_a_file_edited_after_the_import_changes_nothing(tmp_path):
    file, names = module(tmp_path, body("o[i] = x[i] + 1"))
    source = capture(names["k"])
    before = show(lower(source, {}, {}))
    file.write_text(body("o[i] = x[i] * 7"), encoding="utf-8")
    linecache.checkcache()
    assert show(lower(source, {}, {})) == before


def test_a_file_edited_before_capture_is_an_error(tmp_path):
    file, names = module(tmp_path, body("o[i] = x[i] + 1"))
    file.write_text("# a new line\n" + body("value = x[i]", "o[i] = value"), encoding="utf-8")
    linecache.checkcache()
    with pytest.raises(KernelSyntaxError) as caught:
        capture(names["k"])
    assert str(caught.value) == (
        f"cannot read the source of `k`: its text has changed since it was imported\n"
        f" --> {file}:1:1\n"
        "  |\n"
        "help: keep the kernel in a file, or pass its text: @kdsl.kernel(source=...)"
    )


def test_a_function_without_text_is_one_error_that_names_the_way_out():
    k = define(body("o[i] = x[i]"))
    with pytest.raises(KernelSyntaxError) as caught:
        capture(k)
    assert str(caught.value) == (
        "cannot read the source of `k`: there is no source for <text>\n"
        " --> <text>:1:1\n"
        "  |\n"
        "help: keep the kernel in a file, or pass its text: @kdsl.kernel(source=...)"
    )


def test_text_that_linecache_has_is_enough():
    text = body("o[i] = x[i] * 2")
    name = "<input of a console>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    namespace = dict(NAMES)
    exec(compile(text, name, "exec"), namespace)
    assert (reference(capture(namespace["k"]), [ONES], {}) == 2).all()


def test_source_of_another_function_is_refused():
    k = define(body("o[i] = x[i] * 2"))
    with pytest.raises(KernelSyntaxError, match="its text has changed"):
        capture(k, source=body("o[i] = x[i]", signature="x: f32[N], y: f32[N]"))
    with pytest.raises(KernelSyntaxError, match="does not begin a `def k`"):
        capture(k, source="def other():\n    pass\n")


def test_an_indented_kernel_with_decorators_points_at_the_right_column(tmp_path):
    text = (
        "def around(mark):\n"
        "    if True:\n"
        "        @mark\n"
        "        @mark\n"
        "        def k(x: f32[N], ö: Out[f32[N]]):  # — a dash\n"
        "            for i in kdsl.parallel(N):\n"
        '                ä = "é" if False else x[i]; ö[i] = ä + y\n'
        "        return k\n"
    )
    file, names = module(tmp_path, text)
    k = names["around"](lambda f: f)
    with pytest.raises(KernelTypeError) as caught:
        lower(capture(k), {}, {})
    assert str(caught.value) == (
        "`y` is not defined\n"
        f" --> {file}:7:56\n"
        "  |\n"
        '7 |                 ä = "é" if False else x[i]; ö[i] = ä + y\n'
        "  |                                                        ^"
    )
    assert capture(k).line == 5


def test_unicode_names_become_ascii_ones():
    text = body("é = x[i] * 2", "o[i] = é + é")
    func = lower(capture(define(text), source=text), {}, {})
    assert show(func).isascii()


def test_names_that_are_words_of_c_are_changed():
    text = body("new = x[i] * 2", "int = new + 1", "double = int * new", "o[i] = double")
    shown = show(lower(capture(define(text), source=text), {}, {}))
    assert "new_: f32" in shown
    assert "int_: f32" in shown
    assert "double_: f32" in shown


def test_string_annotations_see_the_names_around_the_function():
    width = kdsl.dims("W")[0]

    def k(x: "f32[width]", o: "Out[f32[width]]"):  # noqa: UP037
        for i in kdsl.parallel(width):
            o[i] = x[i]

    assert width.name == "W"
    assert capture(k).signature.text == "k(x: f32[W], o: Out[f32[W]])"


def test_a_string_annotation_that_fails_says_which():
    def k(x: "f32[widht]", o: "Out[f32[N]]"):  # noqa: F821, UP037
        pass

    with pytest.raises(KernelTypeError) as caught:
        capture(k)
    first = str(caught.value).splitlines()[0]
    assert first == "the annotation of `x` cannot be evaluated: name 'widht' is not defined"


# ---- names from outside


def annotated(factor=None, empty=False):
    """A kernel in whose closure `factor` stands, perhaps without a value."""

    def k(x: f32[N], o: Out[f32[N]]):
        for i in kdsl.parallel(N):
            o[i] = x[i] * factor

    if empty:
        del factor
    return k


def test_closures_are_captured_by_value():
    two, three = capture(annotated(2.0)), capture(annotated(3.0))
    assert "2.0" in show(lower(two, {}, {}))
    assert "3.0" in show(lower(three, {}, {}))
    assert dict(two.captured())["k.factor"] == "2.0"
    assert dict(three.captured())["k.factor"] == "3.0"


def test_an_empty_cell_is_named():
    source = capture(annotated(empty=True))
    with pytest.raises(KernelTypeError, match="`factor` has no value yet"):
        lower(source, {}, {})


CONFIG = SimpleNamespace(rate=0.5, other=1)
LIMIT = 4


def helper(v):
    return inner(v) * CONFIG.rate


def inner(v):
    return v + LIMIT


def uses_helper(x: f32[N], o: Out[f32[N]]):
    for i in kdsl.parallel(N):
        o[i] = helper(x[i]) * kdsl.LOG2E


def test_captured_values_follow_helpers_and_attributes(monkeypatch):
    source = capture(uses_helper)
    before = dict(source.captured())
    assert before["uses_helper.helper.CONFIG.rate"] == "0.5"
    assert before["uses_helper.helper.inner.LIMIT"] == "4"
    assert before["uses_helper.helper"].startswith("FunctionDef('helper',")
    monkeypatch.setitem(globals(), "LIMIT", 5)
    assert dict(source.captured())["uses_helper.helper.inner.LIMIT"] == "5"
    monkeypatch.setattr(CONFIG, "rate", 0.25)
    assert source.captured() != tuple(before.items())
    monkeypatch.setitem(globals(), "inner", lambda v: v)
    assert dict(source.captured())["uses_helper.helper.inner"] != before["uses_helper.helper.inner"]


class Settings:
    kind = 1

    def __init__(self, **values):
        vars(self).update(values)


SETTINGS = Settings(scale=2.0, parts=(1, [2, {"a": 3.0}]), table=np.arange(3))
double, triple = lambda v: v * 2, lambda v: v * 3


def with_settings(x: f32[N], o: Out[f32[N]]):
    for i in kdsl.parallel(N):
        o[i] = from_settings(x[i], SETTINGS)


def from_settings(v, settings):
    return triple(v) * settings.scale


@pytest.mark.parametrize(
    "change",
    [
        lambda: setattr(SETTINGS, "scale", 3.0),
        lambda: setattr(Settings, "kind", 2),
        lambda: SETTINGS.parts[1][1].update(a=4.0),
        lambda: SETTINGS.table.__setitem__(0, 9),
        lambda: setattr(SETTINGS, "helper", double),
    ],
)
def test_objects_are_captured_with_all_their_parts(change):
    source = capture(with_settings)
    before = source.captured()
    assert before == source.captured()
    change()
    assert before != source.captured()


def test_a_lambda_is_found_by_its_code():
    got = reference(capture(with_settings), [ONES], {})
    func = lower(capture(with_settings), {}, {})
    assert (got == 3 * SETTINGS.scale).all()
    assert "3.0" in show(func)


def test_helpers_without_source_are_captured_by_their_code():
    def made(text):
        namespace = {"N": N, "kdsl": kdsl}
        exec(compile(text, "<nowhere>", "exec"), namespace)
        return namespace["helper"]

    def kernel(x: f32[N], o: Out[f32[N]]):
        for i in kdsl.parallel(N):
            o[i] = helper(x[i])

    texts = []
    for line in ("return v + 1", "return v + 2"):
        helper = made(f"def helper(v):\n    {line}\n")
        texts.append(dict(capture(kernel).captured())["kernel.helper"])
    assert texts[0] != texts[1]
    with pytest.raises(KernelSyntaxError, match="cannot read the source of `helper`"):
        lower(capture(kernel), {}, {})


def test_a_changed_global_is_seen_by_the_next_lowering(monkeypatch):
    source = capture(uses_helper)
    assert "4.0" in show(lower(source, {}, {}))
    monkeypatch.setitem(globals(), "LIMIT", 17)
    assert "17.0" in show(lower(source, {}, {}))


def test_lines_within_brackets_may_begin_left_of_the_function(tmp_path):
    text = """
from kdsl.lang import Out, dims, f32, parallel
(N,) = dims("N")
def make():
    def f(x: f32[N], o: Out[f32[N]]):
        for i in parallel(N):
            o[i] = (
  x[i] +
q)
    return f
"""
    _, names = module(tmp_path, text)
    with pytest.raises(KernelTypeError) as caught:
        lower(capture(names["make"]()), {}, {})
    assert str(caught.value).splitlines()[1:] == [
        f" --> {tmp_path}/author.py:9:1",
        "  |",
        "9 | q)",
        "  | ^",
    ]


def test_capture_is_of_plain_functions():
    with pytest.raises(TypeError, match="a kernel is a function, got int"):
        capture(3)
    text = "def k(x: f32[N], o: Out[f32[N]]):\n    yield\n"
    k = define(text)
    with pytest.raises(KernelSyntaxError, match="without yield or async"):
        capture(k, source=text)
    text = "@kdsl.inline\nasync def k(x: f32[N], o: Out[f32[N]]):\n    pass\n"
    with pytest.raises(KernelSyntaxError, match="without yield or async") as caught:
        capture(define(text), source=text)
    assert caught.value.span.line == 2


def test_names_may_have_any_letters_but_that_of_the_kernel():
    (ν,) = kdsl.dims("ν")

    def k(ü: f32[N, ν], größe: f32, ö: Out[f32[N, ν]], *, schön: Static[bool] = True):
        for ñ in kdsl.parallel(N):
            ö[ñ] = ü[ñ] * größe + ν

    func = lower(capture(k), {}, {})
    verify(func)
    assert parse(show(func)) == func
    assert reference(capture(k), [np.ones((2, 3), np.float32), 2.0], {}).tolist() == [[5.0] * 3] * 2

    def grün(x: f32[N], o: Out[f32[N]]):
        pass

    with pytest.raises(KernelSyntaxError, match="has ASCII letters only, got `grün`"):
        capture(grün)


def test_tile_sizes_are_given_by_loop_variable():
    def k(x: f32[N], o: Out[f32[N]], p: Out[f32[N]]):
        for n in kdsl.parallel(kdsl.tiles(N)):
            o[n] = n.index * 0 + n.size
            for j in kdsl.tiles(N):
                p[n] = j.size * 1.0

    def sizes(**tiles):
        o, _ = reference(capture(k), [np.zeros(10, np.float32)], {}, tiles)
        return o.tolist()

    assert sizes() == [10] * 10
    assert sizes(n=4) == [4] * 8 + [2] * 2
    assert sizes(j=4) == [10] * 10


def test_an_error_in_a_helper_points_into_it_and_notes_the_call():
    def kernel(x: f32[N], o: Out[f32[N]]):
        for i in kdsl.parallel(N):
            o[i] = wrong(x[i])

    with pytest.raises(KernelTypeError) as caught:
        lower(capture(kernel), {}, {})
    assert caught.value.span.text == "    return v + nothing  # noqa: F821"
    (note,) = caught.value.__notes__
    assert note.startswith("in `wrong`, called from ")
    assert "test_source.py" in note


def wrong(v):
    return v + nothing  # noqa: F821


def test_an_endless_expression_is_one_error():
    text = body("o[i] = " + " + ".join(["x[i]"] * 500))
    k = define(text)
    with pytest.raises(KernelSyntaxError, match="nested too deeply"):
        lower(capture(k, source=text), {}, {})
