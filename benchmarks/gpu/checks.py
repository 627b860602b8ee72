"""The project's own tests of a card, `pytest -m gpu`, one item a test; a test that passed before is not run again.

Only the files with the mark are collected, and no conftest.py above their folder is read: that of `tests` needs Ray.
With pytest-xdist four processes share the card. `--quick` runs the tests of one method on the CPU.
"""

import importlib.util
import os
import sys
import tempfile
import time
from typing import Any

import pytest

from benchmarks.gpu.parts import REPO
from benchmarks.gpu.results import Results, called

MARK = "pytest.mark.gpu"
ON_CPU = "CSE_CARD_TESTS_ON_CPU"
"""Set, it lets the tests of a card run on a CPU."""
PROCESSES = 4
NOTED = 400
"""Characters that are kept of what a test printed."""


class Outcomes:
    """Pytest plug-in that records each test as an item of the part."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.begun = time.perf_counter()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            error = None if report.outcome != "failed" else why(report)
            figures = {"outcome": report.outcome, "printed": report.capstdout.strip()[-NOTED:]}
            self.results.lines = [self.summary()]
            self.results.add(report.nodeid, report.duration, error=error, figures=figures)
            self.results.lines = [self.summary()]
            self.results.save()

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.results.add(report.nodeid or "collection", 0.0, error=why(report), figures={"outcome": "failed"})

    def summary(self) -> str:
        """Returns the number of tests with each outcome, in words."""
        outcomes = [item["figures"]["outcome"] for item in self.results.items.values()]
        return ", ".join(f"{outcomes.count(kind)} {kind}" for kind in ("passed", "failed", "skipped"))


def why(report: Any) -> str:
    """The line of a failure."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    return " ".join(text.split())[:300]


def files_of(folder: str) -> list[str]:
    """The files of a folder that have tests of a card."""
    files = sorted((REPO / folder).rglob("test_*.py"))
    return [file.relative_to(REPO).as_posix() for file in files if MARK in file.read_text(encoding="utf8")]


def arguments(folder: str, passed: list[str], quick: bool) -> list[str]:
    """Returns pytest's command line; tests in `passed` are left out."""
    common = ["-m", "gpu", "-rfEs", "--tb=short", "--confcutdir", folder, "-p", "no:cacheprovider", "--color=no"]
    common += [part for name in passed for part in ("--deselect", name)]
    if folder == "tests/cluster":
        common[common.index("--confcutdir") + 1] = "tests"  # its fixtures are those of all tests
    elif quick:
        common += ["-k", "simcse and not esimcse and not undisturbed and not nccl and not fp16"]
    elif importlib.util.find_spec("xdist") is not None:
        common += ["-n", str(PROCESSES)]
    return [*common, *files_of(folder)]


def main() -> int:
    folder = sys.argv.pop(1)
    call = called(__doc__)
    os.chdir(REPO)
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    if call.quick:
        os.environ[ON_CPU] = "1"
    passed = [name for name, item in call.results.items.items() if item["figures"]["outcome"] == "passed"]
    with tempfile.TemporaryDirectory() as cache:
        os.environ["CSE_CACHE"] = cache
        code = pytest.main(arguments(folder, passed, call.quick), [Outcomes(call.results)])
    if code == pytest.ExitCode.NO_TESTS_COLLECTED and passed:
        return 0
    return int(code)


if __name__ == "__main__":
    raise SystemExit(main())
