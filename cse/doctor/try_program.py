"""`cse doctor --try`: runs a user's training script twice with one seed, to see that it reports and sets its seed."""

import tempfile
from pathlib import Path

from cse.doctor.checks import Finding
from cse_train.config import RunConfig
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError
from cse_train.reading import MachineFault
from cse_train.results import Point
from cse_train.training.trainer.run import ProgramFailed, train
from search_spaces.cell_names import cell_name
from search_spaces.cells import ResolvedSpace


def try_program(resolved: ResolvedSpace, paths: DataPaths) -> list[Finding]:
    """Runs the first cell's first seed twice, each until its first report; a `stop` finding if a run fails."""
    cell, seed = resolved.cells()[0], resolved.space.seeds[0]
    try:
        first, second = (_report_once(cell.run(seed), paths) for _ in range(2))
    except ConfigError as error:
        return [Finding("stop", "try", line) for line in error.problems]
    except (ProgramFailed, MachineFault) as error:
        return [Finding("stop", "try", f"{cell_name(cell.key, seed)}: {error}")]
    name = cell.run(seed).train.dev
    share = f"{first.examples / int(str(cell.run(seed).train.examples)):.0%} of the run"
    summary = (
        f"{cell_name(cell.key, seed)}: {name}={_score(cell.run(seed), first):.6g} after {first.seconds:.0f} s, {share}"
    )
    if first.best == second.best:
        return [Finding("fine", "try", f"{summary}; the same seed twice gave one score")]
    line = f"your script does not set its seed: the same seed gave {_score(cell.run(seed), second):.6g} the second time"
    return [
        Finding("fine", "try", summary),
        Finding("note", "try", f"{line}; call transformers.set_seed(seed) at first"),
    ]


def _report_once(run: RunConfig, paths: DataPaths) -> Point:
    """Returns the first report of a run, and ends the run with it."""
    points: list[Point] = []

    def stop(point: Point) -> bool:
        points.append(point)
        return True

    with tempfile.TemporaryDirectory() as folder:
        train(run, paths, Path(folder), stop)
    return points[0]


def _score(run: RunConfig, point: Point) -> float:
    """Returns the score with the sign in which the user's script reported it."""
    return -point.best if run.options.TURNED else point.best
