"""The row of a thousand near-empty runs: as fast at the end as at the beginning, and nothing piles up."""

import json
import shutil
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.faults.chain import Fault
from benchmarks.faults.empty_runs import EARLY, RUNS
from tests.cluster_real.processes import Processes

SLOWER, GROWTH_MB = 0.2, 100
HANDLES = 8
"""File handles more than this after 900 further runs count as a leak; Ray's connections and SQLite's pool vary."""
END_S = 3600.0


def carry(faults: Sequence[Fault], work: Path) -> list[tuple[Fault, list[str]]]:
    """Run them once for each; nothing is hurt."""
    return [(fault, once(work / f"many-{fault.number}")) for fault in faults]


def once(folder: Path) -> list[str]:
    """Run them in `folder`; the problems, with the figures where there is one."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    processes = Processes(folder)
    try:
        argv = (sys.executable, "-m", "benchmarks.faults.empty_runs", str(folder))
        code = processes.start(*argv, log="driver.log").wait(END_S)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    finally:
        processes.end()
    if code:
        return [f"exit code {code}: {processes.said('driver.log')[-300:]}"]
    measured = json.loads((folder / "held.json").read_text())
    print("many", figures(measured), flush=True)
    return problems(measured)


def pace(times: Sequence[float]) -> tuple[float, float]:
    """Seconds that the first and the last hundred runs took, from finish to finish."""
    return times[EARLY - 1] - times[0], times[RUNS - 1] - times[RUNS - EARLY]


def figures(measured: Mapping[str, Any]) -> str:
    first, last = pace(measured["times"])
    of_driver = "driver CPU {:.1f} s, then {:.1f} s".format(*pace(measured["cpu"]))
    held = f"{measured['held'][0]} -> {measured['held'][1]}"
    return f"first {EARLY} in {first:.1f} s, last {EARLY} in {last:.1f} s ({of_driver}); {held}"


def problems(measured: Mapping[str, Any]) -> list[str]:
    """Against the bars: pace within 20 %, less than 100 MB more, no more actors or groups, no handle for each run."""
    first, last = pace(measured["times"])
    early, late = measured["held"]
    bad = [figures(measured)] if abs(last / first - 1) > SLOWER else []
    bad += [f"the driver grew by {grew:.0f} MB"] if (grew := late["memory"] - early["memory"]) >= GROWTH_MB else []
    room = {"files": HANDLES, "ray_files": HANDLES, "actors": 0, "placement_groups": 0}
    more = [kind for kind, most in room.items() if late[kind] > early[kind] + most]
    return bad + [f"{kind}: {early[kind]:.0f}, then {late[kind]:.0f}{_new(kind, measured)}" for kind in more]


def _new(kind: str, measured: Mapping[str, Any]) -> str:
    """Returns, in brackets, the files open at the end and not at first in the driver; empty for other kinds."""
    before, after = (Counter(names) for names in measured["opened"])
    return f" ({', '.join((after - before).elements())})" if kind == "files" else ""
