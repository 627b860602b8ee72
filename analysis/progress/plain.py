"""Converts progress of sweeps and runs to plain values for JSON."""

from dataclasses import asdict

from analysis.progress.sweeps import RunProgress, SweepDetail, SweepProgress


def short(sweep: SweepProgress) -> dict[str, object]:
    """Returns a sweep's progress without its runs, as `cse status --format json` prints it."""
    plain = {name: value for name, value in vars(sweep).items() if name not in ("space", "search")}
    return plain | {"ended": sweep.ended, "drivers": list(map(asdict, sweep.drivers))}


def whole(sweep: SweepDetail) -> dict[str, object]:
    """Returns a sweep with its first runs and curves, as `cse status ID --format json` prints it."""
    return {
        **short(sweep.progress),
        "list": [run(progress) for progress in sweep.runs],
        "unlisted": sweep.unlisted,
        "curves": [vars(curve) for curve in sweep.curves],
    }


def run(progress: RunProgress) -> dict[str, object]:
    names = ("signature", "state", "share", "examples", "total", "best", "reason")
    return {"label": progress.label, **{name: getattr(progress.row, name) for name in names}}
