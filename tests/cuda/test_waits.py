"""Each wait and barrier of generated code is necessary: without it the simulator reports."""

from __future__ import annotations

import re

import pytest

import kdsl
from kdsl.passes.cuda.tensor import Schedule
from tests.cuda.launch import build, run
from tests.cuda.test_attention import attention, problem

_WAIT = re.compile(r" *(?:sync\(\)|copies_wait<\d+>\(\));")
SIZES = (1, 1, 1, 64, 160, 64)
SMALL = {"attention": Schedule(tiles={"m": 64, "n": 32})}


def waits(text: str) -> list[int]:
    """Lines of the turn that wait."""
    lines = text.splitlines()
    begin = next(i for i, line in enumerate(lines) if "auto turn" in line)
    end = next(i for i in range(begin, len(lines)) if lines[i].startswith("  };"))
    return [i for i in range(begin, end) if _WAIT.fullmatch(lines[i])]


def without(number: int, text: str) -> str:
    """The text without the wait of this number."""
    lines = text.splitlines()
    del lines[waits(text)[number]]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("number", range(4))
def test_a_turn_of_attention_without_a_wait_is_reported(ptx_folder, number):
    def edit(text: str) -> str:
        assert len(waits(text)) == 4
        return without(number, text)

    built = build(
        attention, ptx_folder, dtypes={"T": kdsl.f16}, dims={"D": 64}, schedules=SMALL, edit=edit
    )
    values = problem("f16", *SIZES)
    kinds = {
        r.kind for seed in range(4) for phase in run(built, values, seed=seed)[1]
        for r in phase.reports
    }  # fmt: skip
    assert kinds & {
        "read-inflight", "uninit-shared", "race-write-after-read", "race-read-after-write",
        "race-write-write", "write-inflight",
    }  # fmt: skip


def test_the_same_turn_with_all_of_them_is_not(ptx_folder):
    built = build(attention, ptx_folder, dtypes={"T": kdsl.f16}, dims={"D": 64}, schedules=SMALL)
    for seed in range(4):
        assert [r for phase in run(built, problem("f16", *SIZES), seed=seed)[1]
                for r in phase.reports] == []  # fmt: skip
