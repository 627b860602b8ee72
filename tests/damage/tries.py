"""Damaged files at one boundary: each is refused in clean lines, or read as if nothing had happened."""

import resource
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

from cse.cli.exit import MISTAKE, verdict
from cse.cli.printing import problem_lines
from tests.damage.boundaries import Boundary
from tests.damage.damages import Damaged

FEW, MANY = 25, 500
"""Damages of each boundary."""
SECONDS = 5.0
"""Of this process for one damaged file, at most: more is a file that hangs."""
BYTES = 10**9
"""By which this process may grow over all damages of a boundary."""


def by_name(made: Sequence[Boundary], names: Sequence[str]) -> dict[str, Boundary]:
    """The boundaries under the names by which tests are listed before any is made."""
    assert [boundary.name for boundary in made] == list(names)
    return {boundary.name: boundary for boundary in made}


def holds(boundary: Boundary, damage: Any) -> None:
    """Read the damaged file in a folder of its own."""
    folder, begun = Path(tempfile.mkdtemp(prefix="damage")), time.process_time()
    try:
        boundary.read(folder, damage.made() if isinstance(damage, Damaged) else damage)
    except AssertionError:
        raise
    except Exception as error:
        code, lines = verdict(error)
        assert code == MISTAKE and lines, lines
        assert all(line.isprintable() for line in problem_lines(lines)), lines
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert time.process_time() - begun < SECONDS, "hangs"


def try_many(boundary: Boundary, count: int) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    @settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(boundary.damages)
    def every(damage: Any) -> None:
        holds(boundary, damage)

    every()
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < BYTES
