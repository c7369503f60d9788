"""`sim.run`: arguments, errors, results, schedules, interruption."""

from __future__ import annotations

import os
import signal
import struct
import threading
import time

import numpy as np
import pytest

from kdsl import sim
from tests.sim import fixtures
from tests.sim.harness import HEAD, kernel

SCALARS = f"""{HEAD}
.visible .entry k(.param .u64 out, .param .f32 a, .param .s32 b, .param .f64 c, .param .u8 d,
    .param .align 8 .b8 pair[16])
{{
  .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .f32 %f<4>; .reg .f64 %d<9>;
  ld.param.u64 %rd1, [out]; ld.param.f32 %f1, [a]; ld.param.s32 %r1, [b]; ld.param.f64 %d1, [c];
  ld.param.u8 %r2, [d]; ld.param.s64 %rd2, [pair]; ld.param.f64 %d6, [pair+8];
  cvt.f64.f32 %d2, %f1; cvt.rn.f64.s32 %d3, %r1; cvt.rn.f64.u32 %d4, %r2; cvt.rn.f64.s64 %d5, %rd2;
  add.f64 %d1, %d1, %d2; add.f64 %d1, %d1, %d3; add.f64 %d1, %d1, %d4; add.f64 %d1, %d1, %d5;
  add.f64 %d1, %d1, %d6; st.global.f64 [%rd1], %d1; ret;
}}
"""


def run(*args):
    return sim.run(SCALARS, "k", 1, 1, args)


def test_arguments_are_converted_to_the_parameters_types():
    out = np.zeros(1)
    assert run(out, 0.5, -3, 10, np.uint8(200), struct.pack("<qd", -(2**40), 0.25)).reports == ()
    assert out[0] == 0.5 - 3 + 10 + 200 - 2**40 + 0.25


PAIR = bytes(16)
WRONG = [
    ((), TypeError, "kernel k: expected 6 arguments (.u64 out, .f32 a, .s32 b, .f64 c, .u8 d, "
     ".b8 pair[16]), got 0"),
    ((1, 1, 1, 1, np.zeros(3), PAIR), TypeError,
     "kernel k: argument 4 `.u8 d`: expected a number, got an array"),
    (("x", 1, 1, 1, 1, PAIR), TypeError,
     "kernel k: argument 0 `.u64 out`: expected an array or a number, got str"),
    ((0, 1, 1.5, 1, 1, PAIR), TypeError,
     "kernel k: argument 2 `.s32 b`: expected an integer, got 1.5"),
    ((0, 1, 2**40, 1, 1, PAIR), ValueError,
     "kernel k: argument 2 `.s32 b`: 1099511627776 does not fit in 32 bits"),
    ((0, 1, 1, 1, 1, bytes(8)), TypeError,
     "kernel k: argument 5 `.b8 pair[16]`: expected 16 bytes, got 8"),
    ((0, 1, 1, 1, 1, 7), TypeError,
     "kernel k: argument 5 `.b8 pair[16]`: expected bytes of the struct, got int"),
]  # fmt: skip


@pytest.mark.parametrize(("args", "error", "text"), WRONG)
def test_a_wrong_argument_is_named(args, error, text):
    with pytest.raises(error) as caught:
        run(*args)
    assert str(caught.value) == text


@pytest.mark.parametrize(("text", "name", "grid", "block", "error"), [
    (kernel("", 0), "z", 1, 32, "no kernel `z` in the PTX; it has k"),
    ("", "k", 1, 32, "the text has no PTX function"),
    (HEAD + ".visible .entry k() { add.u32 %r1, ;", "k", 1, 32,
     "PTX line 4: the body of a function is never closed, found the end of the text"),
    (kernel("  wgmma.fence.sync.aligned;", 0), "k", 1, 32,
     "kernel k: the simulator does not know `wgmma.fence.sync.aligned` at PTX line 12"),
    (kernel("  add.u32 %rd1, %r1, %r2;", 0), "k", 1, 32,
     "kernel k: the simulator does not know `add.u32 %rd1, %r1, %r2` at PTX line 12: `%rd1` has "
     "another width than the result"),
    (kernel("  bra NOWHERE;", 0), "k", 1, 32,
     "kernel k: the simulator does not know `bra NOWHERE` at PTX line 12: no label `NOWHERE`"),
    (kernel("", 0), "k", (1, 2, 3, 4), 32, "grid: expected one to three sizes, got (1, 2, 3, 4)"),
    (kernel("", 0), "k", 0, 32, "kernel k: grid (0, 1, 1): a grid has at least one block, at most "
     "2147483647 in x and 65535 in y and z"),
    (kernel("", 0), "k", 1, 1025,
     "kernel k: block (1025, 1, 1): a block has 1 to 1024 threads, at most 64 in z"),
    (kernel("", 0).replace(") {", ") .reqntid 64 {"), "k", 1, 32,
     "kernel k: block (32, 1, 1): the kernel is compiled for exactly 64 threads"),
])  # fmt: skip
def test_what_cannot_run_says_why(text, name, grid, block, error):
    with pytest.raises(ValueError) as caught:
        sim.run(text, name, grid, block, [])
    assert str(caught.value) == error


def test_an_unknown_instruction_is_named_with_the_authors_line():
    marked = kernel("  .loc 1 33 5\n  frob.b32 %r1, %r2;", 0) + '.file 1 "kernel.py"\n'
    with pytest.raises(ValueError) as caught:
        sim.run(marked, "k", 1, 32, [])
    assert str(caught.value) == (
        "kernel k: the simulator does not know `frob.b32 %r1, %r2` at PTX line 13 (kernel.py:33)"
    )


def test_arrays_of_the_host_are_changed_in_place_whatever_their_strides():
    body = "ld.global.u64 %rd10, [%rd1]; add.u64 %rd10, %rd10, 1; st.global.u64 [%rd0], %rd10;"
    whole = np.arange(64, dtype=np.uint64)
    assert not sim.run(kernel(body, 2), "k", 1, 32, [whole[32:], whole[:32]]).reports
    assert whole.tolist() == [*range(32), *range(1, 33)]
    frozen = np.arange(32, dtype=np.uint64)
    frozen.flags.writeable = False
    sim.run(kernel(body, 2), "k", 1, 32, [frozen, whole[:32]])
    assert frozen.tolist() == list(range(32))


def test_a_run_prints_as_a_summary_and_its_lines_as_a_table():
    x = np.random.default_rng(0).standard_normal((4, 300)).astype(np.float32)
    run = sim.run(fixtures.ptx("rows"), "softmax", 4, 128, [x, np.zeros_like(x), 300])
    assert bool(run) and repr(run).startswith("softmax: 4 blocks, ")
    assert run.counters.write_bytes == x.nbytes and run.counters.read_bytes == 3 * x.nbytes
    table = repr(run.lines).splitlines()
    assert table[0].split() == "line instrs lanes tensor flops banks sector read write".split()
    assert any(row.startswith("rows.cu:16 ") for row in table)
    assert sum(line.counters.instructions for line in run.lines) == run.counters.instructions


def test_a_report_reads_as_one_line():
    (report,) = sim.run(
        kernel("  ld.global.u32 %r1, [%rd0+512];", 1), "k", 1, 32, [np.zeros(32)]
    ).reports
    assert str(report) == (
        "PTX line 12: oob-global: read of 4 bytes: 256 bytes past the end of argument 0 "
        "(float64[32]) (256 bytes) (`ld.global.u32 %r1, [%rd0+512]`, block (0, 0, 0), thread 0; "
        "32 times)"
    )


def test_the_same_seed_is_the_same_schedule():
    text = fixtures.ptx("rows").replace("bar.sync", "// bar.sync")
    x = np.random.default_rng(0).standard_normal((8, 300)).astype(np.float32)

    def once(seed, threads):
        y = np.zeros_like(x)
        found = sim.run(text, "softmax", 8, 128, [x, y, 300], seed=seed, threads=threads).reports
        return y.tobytes(), [str(r) for r in found]

    assert once(3, 1) == once(3, 2) == once(3, 1)


def test_a_printed_text_comes_back():
    outside = """
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.global .align 1 .b8 format[12] = {37, 100, 32, 37, 46, 50, 102, 32, 37, 115, 10, 0};
.global .align 1 .b8 name[3] = {104, 105, 0};
"""
    body = """
      .local .align 8 .b8 list[24]; mov.u64 %rd10, list; cvta.local.u64 %rd10, %rd10;
      st.local.u32 [list], %r79; st.local.f64 [list+8], 0d3FF8000000000000;
      mov.u64 %rd11, name; cvta.global.u64 %rd11, %rd11; st.local.u64 [list+16], %rd11;
      mov.u64 %rd12, format; cvta.global.u64 %rd12, %rd12;
      { .param .b64 x; .param .b64 y; .param .b32 z;
        st.param.b64 [x], %rd12; st.param.b64 [y], %rd10;
        call.uni (z), vprintf, (x, y); }
    """
    assert (
        sim.run(kernel(body, 0, outside=outside), "k", 1, 2, []).printed == "0 1.50 hi\n1 1.50 hi\n"
    )


def test_a_function_that_calls_itself_is_refused_by_its_line():
    ptx = kernel("  call.uni f, ();", 0, outside=".func f() { call.uni f, (); ret; }")
    with pytest.raises(ValueError, match=r"know `call.uni f, \(\)` at PTX line 4: recursion"):
        sim.run(ptx, "k", 1, 32, [])


def test_a_kernel_that_never_ends_counts_as_hung():
    run = sim.run(kernel("  L: bra L;", 0), "k", 4, 32, [], limit=100_000)
    (report,) = run.reports
    assert report.kind == "hang"
    assert report.text == "100000 instructions of the block changed no memory and passed no barrier"


def test_blocks_may_wait_for_blocks_that_come_later():
    body = """
      ld.param.u64 %rd10, [p0]; mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 7; @%p1 bra WAIT;
      membar.gl; st.volatile.global.u32 [%rd10], 1; bra DONE;
    WAIT: ld.volatile.global.u32 %r2, [%rd10]; setp.ne.u32 %p2, %r2, 1; @%p2 bra WAIT;
    DONE:
    """
    assert not sim.run(kernel(body, 1), "k", 8, 32, [np.zeros(32)], threads=1).reports


def test_ctrl_c_ends_a_long_simulation():
    body = "  mov.u32 %r1, 0; L: st.global.u32 [%rd0], %r1; bra L;"
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        sim.run(kernel(body, 1), "k", 1, 32, [np.zeros(32)])
    assert time.monotonic() - begin < 30
    timer.join()
