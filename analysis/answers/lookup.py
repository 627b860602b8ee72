"""Looks up runs, sweeps and spaces that a person names, and the lineage and inputs of a run."""

import filecmp
import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from analysis.ledger import Ledger, RunRow, SweepRow
from analysis.run_folder import RunFolder
from analysis.run_state import RunState
from cse_train.fields import ConfigError, Scalar, Settings, nearest
from cse_train.plugins import registry
from cse_train.results import Lineage
from search_spaces.catalog import HEIRS, catalog, former, load_space, space_name
from search_spaces.cells import ResolvedSpace, resolve, setups
from search_spaces.identity.signature import holds_encoder
from search_spaces.parse import parse_written
from search_spaces.profiles import Profile, load_former, parse_profile
from search_spaces.space import Space
from search_spaces.strict_yaml import read_yaml
from search_spaces.user_data import ENCODER, absolute, absolute_settings


def lineage_of(folder: Path, ledger: Ledger | None) -> Lineage:
    """Returns the lineage of the run whose files lie in `folder`; an empty one for a run outside the ledger."""
    row = row_of(folder, ledger) if ledger else None
    if ledger is None or row is None:
        return Lineage()
    linked = _links(row.signature, ledger)
    sweeps = list(linked)
    cell, seeds = linked[sweeps[-1]] if sweeps else ({}, [row.signature])
    attempts = {entry.attempt: entry.details for entry in ledger.provenance([row.signature]).get(row.signature, [])}
    return Lineage(
        signature=row.signature,
        sweeps=sweeps,
        cell=cell,
        seeds={run.seed: run.best for run in ledger.runs(states=[RunState.DONE], signatures=seeds)},
        hashes=row.identity,
        provenance=attempts.get(row.attempt, {}),
        scores=[(s.suite, s.value, s.protocol.facts) for s in ledger.scores([row.signature]) if s.value is not None],
    )


def _links(signature: str, ledger: Ledger) -> dict[str, tuple[Settings, list[str]]]:
    """Returns sweep, oldest first -> the run's cell there and the signatures of all of the cell's seeds."""
    links_by_sweep = {}
    for sweep in ledger.sweeps():
        links = ledger.cells(sweep.id)
        cell = next((link.cell for link in links if link.signature == signature), None)
        if cell is not None:
            links_by_sweep[sweep.id] = (cell, [link.signature for link in links if link.cell == cell])
    return links_by_sweep


def require_files(row: RunRow, ledger: Ledger | None) -> Path:
    """Returns the run's folder. Raises ConfigError where it is not on this machine."""
    source = ledger.imports([row.signature]).get(row.signature) if ledger else None
    if source is not None:
        raise ConfigError([f"run without files: run={row.signature} was {source.line()}; name a copy of that folder"])
    if row.folder is None or not Path(row.folder).is_dir():
        spaces = spaces_of_run(row.signature, ledger) if ledger else []
        space = shlex.quote(space_name(spaces[0].space.file)) if spaces else "SPACE"
        raise ConfigError(
            [
                f"run without files: run={row.signature} folder={row.folder}; its folder is gone: name another "
                f"--storage, or cse run {space} --retrain-missing, with its settings and data, trains it again"
            ]
        )
    return Path(row.folder)


def encoder_for(folder: Path, ledger: Ledger | None, named_encoder: str | None) -> str | None:
    """Returns the path of the encoder of a folder's run; None if the checkpoint's own name is enough.

    `named_encoder` is the encoder that the person names. Raises ConfigError if its content differs from the ledger's
    record, or if no path holds the encoder.
    """
    row = row_of(RunFolder.around(folder).path, ledger) if ledger else None
    place = None if named_encoder is None else str(absolute(ENCODER, named_encoder, Path.cwd()))
    if row is None or ledger is None or ENCODER not in row.config or "encoder" not in row.identity:
        return place
    if place is not None and not holds_encoder(place, row.identity):
        origin = f"run={row.signature} began with encoder {str(row.identity['encoder'])[:8]}"
        raise ConfigError([f"another encoder: encoder={place}, and {origin}; give the folder that holds that one"])
    return place or encoder_of(row, ledger)


def encoder_of(row: RunRow, ledger: Ledger) -> str | None:
    """Returns the path by which a later sweep names the run's encoder; None if the run's own path still holds it.

    Raises ConfigError where the run's path is gone or holds something else, and no sweep names another.
    """
    recorded = str(row.config.get(ENCODER, ""))
    if not Path(recorded).is_absolute() or "encoder" not in row.identity or holds_encoder(recorded, row.identity):
        return None
    spaces = spaces_of_run(row.signature, ledger)
    names = dict.fromkeys(str(each.get(ENCODER)) for space in spaces for each in setups(space))
    current = next((name for name in names if name != recorded and holds_encoder(name, row.identity)), None)
    if current is None:
        status = "holds another" if Path(recorded).exists() else "is gone"
        digest = str(row.identity["encoder"])[:8]
        origin = f"run={row.signature} began with encoder {digest} at {recorded}, which {status}"
        advice = "cse run SPACE with its path of today (0 run), or give --encoder to cse eval, embed or export"
        raise ConfigError([f"moved encoder: {origin}; {advice}"])
    return current


def spaces_of_run(signature: str, ledger: Ledger) -> list[ResolvedSpace]:
    """Returns the spaces of the sweeps that have the run, oldest first, without those whose file is gone."""
    linked = _links(signature, ledger)
    spaces = (space_of_sweep(sweep) for sweep in ledger.sweeps() if sweep.id in linked)
    return [space for space in spaces if space]


def row_of(folder: Path, ledger: Ledger) -> RunRow | None:
    """Returns the run whose files lie in a folder; None if the ledger has no run there."""
    rows = (run for run in ledger.runs() if run.folder is not None and Path(run.folder).resolve() == folder.resolve())
    return next(rows, None)


def find_run(name: str, ledger: Ledger) -> RunRow | None:
    """Returns the run whose signature begins with `name`, of six digits or more. Raises ConfigError for several."""
    rows = [run for run in ledger.runs() if run.signature.startswith(name)] if len(name) >= 6 else []
    if len(rows) > 1:
        raise ConfigError([f"ambiguous run: run={name} starts {len(rows)} signatures; give more of it"])
    return rows[0] if rows else None


def best_of(runs: Iterable[RunRow]) -> RunRow | None:
    """Returns the run with the highest dev score; None if no run has a score."""
    return max((run for run in runs if run.best is not None), key=lambda run: run.best or 0.0, default=None)


def is_space(name: str) -> bool:
    """Returns whether a file or a shipped space has this name; commands take it before a sweep of the same name."""
    return os.path.isfile(name) or name.lower() in map(str.lower, catalog())


def select(
    name: str, ledger: Ledger | None, profile: str | None, settings: Mapping[str, Scalar], *, as_run: bool = True
) -> ResolvedSpace | SweepRow:
    """Returns what a name means: the sweep itself where another tool made its runs, else a space.

    The space of a sweep is as it was run, of an ID or a file as it is now; `profile` and `settings` override it.
    `as_run` says that of a sweep and a space with one name the sweep counts. Raises ConfigError for an unknown name.
    """
    named_space = is_space(name)
    sweep = sweep_of(name, ledger)
    if named_space and not as_run and (sweep is None or _space_before(sweep) is None):
        sweep = None
    if sweep is not None and sweep.spec.imported is not None and not named_space:
        return sweep
    if sweep is not None and sweep.spec.file:
        return _resolve_as_run(sweep, profile, settings)
    try:
        return resolve(load_space(name), profile, settings)
    except ConfigError as error:
        if ledger is None or not error.problems[0].startswith("unknown space"):
            raise
        names = [*catalog(), *(row.id for row in ledger.sweeps())]
        raise ConfigError([f"unknown space: space={name}; {nearest(name, names)}"]) from None


def space_of_sweep(sweep: SweepRow) -> ResolvedSpace | None:
    """Returns the space that a sweep ran; None if its file is gone or does not fit any more."""
    try:
        return _resolve_as_run(sweep, None, {})
    except (KeyError, ConfigError):
        return None


def sweep_of(name: str, ledger: Ledger | None) -> SweepRow | None:
    """Returns the sweep of a name; None if the ledger does not have it."""
    return next((row for row in ledger.sweeps() if row.id == name), None) if ledger else None


def _require_trusted(sources: object, file: Path, sweep: SweepRow) -> None:
    """Raises ConfigError where a ledger, perhaps a stranger's, names plug-ins whose code no user here has named."""
    if isinstance(sources, list) and (foreign_plugins := registry.find_unused(map(str, sources), file.parent)):
        line = f"plug-ins of a ledger's file: sweep={sweep.id} ran {file}, which runs {', '.join(foreign_plugins)}"
        raise ConfigError([f"{line}; give the file in place of the sweep, or --plugins"])


def _resolve_as_run(sweep: SweepRow, profile: str | None, settings: Mapping[str, Scalar]) -> ResolvedSpace:
    overrides = {**sweep.spec.settings, **absolute_settings(settings, Path.cwd())}
    resolved_profile: Profile | str | None = profile or sweep.spec.profile
    if not profile and (written := sweep.spec.profile_yaml) is not None:
        resolved_profile = parse_profile(written, Path(f"{sweep.spec.profile}.yaml"), recorded=True)
    elif not profile and sweep.spec.profile in HEIRS:
        resolved_profile = load_former(sweep.spec.profile)
    resolved = resolve(_space_of(sweep), resolved_profile, overrides, absolute=True)
    input_hashes = {path: hashes for path, hashes in sweep.spec.inputs.items() if isinstance(hashes, Mapping)}
    return replace(resolved, held=input_hashes)


def _space_before(sweep: SweepRow) -> Space | None:
    """Returns the space that a sweep ran if it was shipped then and is gone or changed now; else None.

    A changed space has another title: a sweep of the demo's first title trained an encoder that is shipped no more.
    """
    file = former().get(str(sweep.spec.space))
    if file is None or sweep.spec.yaml:
        return None
    space = load_space(file)
    return space if space.title == sweep.spec.title else None


def _space_of(sweep: SweepRow) -> Space:
    """Returns the space as recorded with the sweep; for an older sweep without a record, as its file is now."""
    file, written = Path(str(sweep.spec.file)), sweep.spec.yaml
    shipped = catalog().get(str(sweep.spec.space))
    if before := _space_before(sweep):
        return before
    if (
        shipped is not None
        and shipped.name == file.name
        and (not file.is_file() or filecmp.cmp(file, shipped, shallow=False))
    ):
        return load_space(shipped)  # another checkout's, and it ships with us too
    if written is None and not file.is_file():
        raise ConfigError([f"no such file: sweep={sweep.id} ran {file}, which is gone; give the space's file"])
    _require_trusted((written or read_yaml(file)).get("plugins"), file, sweep)
    return load_space(file) if written is None else parse_written(written, file)
