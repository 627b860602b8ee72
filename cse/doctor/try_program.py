"""`cse doctor --try`: two short runs of a program by one seed, which show whether it reports, and sets its seed."""

import tempfile
from pathlib import Path

from cse.doctor.checks import Finding
from cse_train.config import RunConfig
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError
from cse_train.reading import MachineFault
from cse_train.results import Point
from cse_train.training.program import ProgramFailed, train
from search_spaces.cell_names import cell_name
from search_spaces.cells import ResolvedSpace


def try_program(resolved: ResolvedSpace, paths: DataPaths) -> list[Finding]:
    """Runs the first cell's first seed twice, each until its first report; a `stop` finding if a run fails."""
    cell, seed = resolved.cells()[0], resolved.space.seeds[0]
    run, name = cell.run(seed), cell_name(cell.key, seed)
    try:
        first, second = (_report_once(run, paths) for _ in range(2))
    except ConfigError as error:
        return [Finding("stop", "try", line) for line in error.problems]
    except (ProgramFailed, MachineFault) as error:
        return [Finding("stop", "try", f"{name}: {error}")]
    sign = -1 if run.options.TURNED else 1  # the sign in which the user's script reported the score
    share = f"{first.examples / int(str(run.train.examples)):.0%} of the run"
    summary = f"{name}: {run.train.dev}={sign * first.best:.6g} after {first.seconds:.0f} s, {share}"
    if first.best == second.best:
        return [Finding("fine", "try", f"{summary}; the same seed twice gave one score")]
    line = f"your script does not set its seed: the same seed gave {sign * second.best:.6g} the second time"
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
