"""What every test may use: goldens, a CUDA compiler, and a cache folder of the run's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

# Examples are the same in every run, and none fails for being slow on a busy machine.
hypothesis.settings.register_profile("kdsl", deadline=None, derandomize=True)
hypothesis.settings.load_profile("kdsl")

GOLDEN = Path(__file__).parent / "golden"

Golden = Callable[[str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="accept the texts of golden files as they are"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """`golden("cpu/add.cc", text)`: the whole text is what tests/golden/cpu/add.cc says."""
    update = bool(request.config.getoption("--update-golden"))

    def compare(path: str, text: str) -> None:
        file = GOLDEN / path
        if update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            return
        if not file.exists():
            pytest.fail(f"tests/golden/{path} is missing; if meant, rerun with --update-golden")
        # A plain comparison, so that pytest shows the difference line by line.
        assert text == file.read_text(encoding="utf-8"), (
            f"{path} changed; if meant, rerun with --update-golden"
        )

    return compare


@pytest.fixture(scope="session")
def cuda_compiler() -> None:
    """For tests that compile CUDA code: they are skipped where nothing does."""
    from kdsl.codegen.toolchain import find_toolchain
    from kdsl.errors import BuildError

    try:
        find_toolchain()
    except BuildError as err:
        pytest.skip(f"no CUDA compiler: {err}")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[None]:
    """Tests compile into a folder of this run, never into the user's cache.

    The simulator's library takes a minute and depends on its sources alone: runs share it.
    """
    with pytest.MonkeyPatch.context() as patch:
        cache = pytestconfig.cache
        assert cache is not None
        patch.setenv("KDSL_SIM_DIR", str(cache.mkdir("simulator")))
        patch.setenv("KDSL_CACHE_DIR", str(tmp_path_factory.mktemp("kdsl-cache")))
        yield
