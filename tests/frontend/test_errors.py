"""What kernels are refused for: the whole message, caret included.

`refused/*.txt` hold pairs: the text of a kernel, a line `---`, the message; `======` between them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frontend.refusal import refusal


def cases():
    found = []
    for file in sorted((Path(__file__).parent / "refused").glob("*.txt")):
        for case in file.read_text(encoding="utf-8").split("\n======\n"):
            kernel, _, message = case.partition("\n---\n")
            title = message.splitlines()[0].partition(": ")[2]
            found.append(pytest.param(kernel + "\n", message.rstrip("\n"), id=title))
    return found


@pytest.mark.parametrize(("kernel", "message"), cases())
def test_refused_with(kernel, message):
    assert refusal(kernel) == message
