"""Which space a person means by a sweep of the ledger, a shipped ID or a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cse_train.fields import ConfigError, Scalar, nearest

if TYPE_CHECKING:
    from analysis.ledger import Ledger, SweepRow
    from cluster.cells import ResolvedSpace


def space_or_sweep(
    name: str, ledger: "Ledger | None", profile: str | None, settings: Mapping[str, Scalar]
) -> "ResolvedSpace":
    """The space of a sweep as it was run, or else that of an ID or file; profile and settings given here win."""
    from cluster.catalog import catalog
    from cluster.space import load_space

    sweep = _sweep(name, ledger)
    if sweep is not None and "file" in sweep.spec:
        return _as_run(sweep, profile, settings)
    try:
        space = load_space(name)
    except ConfigError as error:
        if ledger is None or not error.problems[0].startswith("unknown space"):
            raise
        known = [*catalog(), *(row.id for row in ledger.sweeps())]
        raise ConfigError([f"unknown space: space={name}; {nearest(name, known)}"]) from None
    return space.resolve(profile, settings)


def space_of_sweep(name: str, ledger: "Ledger") -> "ResolvedSpace | None":
    """The space that a sweep ran; None where its file is gone or does not fit any more."""
    sweep = _sweep(name, ledger)
    try:
        return _as_run(sweep, None, {}) if sweep is not None and "file" in sweep.spec else None
    except ConfigError:
        return None


def _sweep(name: str, ledger: "Ledger | None") -> "SweepRow | None":
    return next((row for row in ledger.sweeps() if row.id == name), None) if ledger else None


def _as_run(sweep: "SweepRow", profile: str | None, settings: Mapping[str, Scalar]) -> "ResolvedSpace":
    from cluster.space import load_space

    file = Path(str(sweep.spec["file"]))
    if not file.is_file():
        raise ConfigError([f"no such file: sweep={sweep.id} ran {file}, which is gone; give the space's file"])
    return load_space(file).resolve(profile or sweep.spec["profile"], {**sweep.spec["set"], **settings})
