"""Leave-one-out ablations: a space with one configuration in full, and without each of its components."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import yaml

from analysis.answers.build import columns_of
from analysis.answers.lookup import find_run, row_of, space_of_sweep, sweep_of
from analysis.answers.selection import require_finished
from analysis.ledger import Ledger, SweepRow
from analysis.ledger.schema import digest
from analysis.matching import match
from analysis.run_folder import RunFolder
from analysis.statistics.basics import mean_and_sd
from analysis.statistics.leave_one_out import Without, leave_one_out
from analysis.sweep_spec import SweepSpec
from analysis.tables.results import results_of
from cse_train.checkpoint import read_best
from cse_train.config import complete, parse_run
from cse_train.fields import ConfigError, Scalar
from cse_train.files import replace_text
from search_spaces.catalog import catalog, load_space
from search_spaces.cells import ResolvedSpace, full_key
from search_spaces.keys import SEED
from search_spaces.parse import parse, parse_file
from search_spaces.space import Component, Space
from search_spaces.user_data import ENCODER

FULL_LABEL = "full"
WITHOUT = "w/o "


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The configuration of an ablation before components are left out, with profile, seeds and suites for its runs."""

    name: str
    """Name of the run or sweep from which the configuration comes."""
    flat: Mapping[str, Scalar]
    """Configuration of a run by dotted key; its seed is ignored."""
    profile: str
    seeds: Sequence[int]
    evaluate: Sequence[str] = ()
    components: Mapping[str, Component] = field(default_factory=dict)
    """Components that the space of the sweep declares; empty if the method's own count."""
    plugins: Sequence[str] = ()
    """Plug-ins of the sweep's space, as absolute paths or module names."""


@dataclass(frozen=True)
class Ablation:
    """The space of an ablation, and the names of components that the configuration does not use."""

    space: Space
    absent: tuple[str, ...]
    raw: Mapping[str, object]
    """The space as plain data, ready to be written as YAML."""

    def write(self) -> Path:
        """Writes the space as a YAML file and returns its path; the file is replaced atomically, then read back and
        compared."""
        path = self.space.file
        replace_text(path, yaml.safe_dump(dict(self.raw), sort_keys=False, allow_unicode=True))
        assert parse_file(path) == self.space, path
        return path


def ablation(origin: Origin, folder: Path) -> Ablation:
    """Returns the ablation that leaves out each component in turn, of those in the configuration.

    Components are those of the sweep's space, else of its method. The file will lie in `folder`. Raises ConfigError for
    a method without components, and where the configuration uses none of them.
    """
    method = str(origin.flat["method"])
    components = origin.components or (load_space(method).components if method in catalog() else {})
    changes = {name: component.changes(origin.flat) for name, component in components.items()}
    present = {name: settings for name, settings in changes.items() if settings}
    if not present:
        reason = f"{', '.join(changes)} are off" if changes else "its space declares none"
        raise ConfigError([f"nothing to leave out: method={method}, {reason}; add to `components:` of its space"])
    raw = _raw(origin, method, present)
    space, problems = parse(raw, (folder / f"{raw['id']}.yaml").resolve())
    if space is None:
        raise ConfigError(problems)
    return Ablation(space, tuple(name for name in changes if name not in present), raw)


def _raw(origin: Origin, method: str, present: Mapping[str, Mapping[str, Scalar]]) -> dict[str, object]:
    settings = {key: value for key, value in origin.flat.items() if key not in ("method", SEED)}
    cells = [{"label": WITHOUT + name, "set": dict(changes)} for name, changes in present.items()]
    name = re.sub(r"[^\w@.=-]+", "-", origin.name).strip("-")
    return {
        "version": 1,
        "id": f"ablate-{name}-{digest([method, settings, cells])[:6]}",
        "title": f"{method} without each of its components, from {origin.name}",
        **({"plugins": list(origin.plugins)} if origin.plugins else {}),
        "method": method,
        "profile": origin.profile,
        "seeds": list(origin.seeds),
        "evaluate": list(origin.evaluate),
        "set": settings,
        "cells": [{"label": FULL_LABEL, "set": {}}, *cells],
    }


def _plugins(space: Space) -> list[str]:
    """Returns a space's plug-ins so that they resolve from any folder: files as absolute paths, modules by name."""
    paths = [(space.file.absolute().parent / source, source) for source in space.plugins]
    return [str(path) if path.exists() else source for path, source in paths]


ABLATION_SEEDS = 3
"""Number of seeds of an ablation that starts from a single run."""


@dataclass(frozen=True)
class ComponentWorth:
    """Result of an ablation: what each component is worth, measured in one column."""

    column: str
    full: Mapping[int, float]
    """Seed -> value of the full configuration."""
    values: Mapping[str, Mapping[int, float]]
    """Label of a configuration without a component -> seed -> value."""
    components: Sequence[Without]
    """Comparisons with the full configuration, the most valuable component first."""

    def as_dict(self) -> dict[str, object]:
        """Returns the full configuration, and a row for each component, as plain data."""
        mean, sd = mean_and_sd(list(self.full.values()))
        full = {"label": FULL_LABEL, "n": len(self.full), "mean": mean, "sd": sd}
        return {"column": self.column, "full": full, "rows": [asdict(component) for component in self.components]}


def is_ablation(space: Space) -> bool:
    """Returns True if a space has the form that `ablation` makes: the full configuration, then one without each
    component."""
    labels = [str(cell.label) for cell in space.cells or ()]
    return labels[:1] == [FULL_LABEL] and all(label.startswith(WITHOUT) for label in labels[1:])


def compare_components(resolved: ResolvedSpace, ledger: Ledger, seeds: Sequence[int]) -> ComponentWorth:
    """Returns what each component is worth, in the first column of the space's table."""
    column = columns_of(resolved)[0]
    labels = {str(full_key(resolved, cell.key)): str(cell.label) for cell in resolved.cells()}
    matches = match(resolved, ledger.runs(), seeds)
    planned = [({"label": labels[str(dict(m.key))]}, m.run.signature, m.run.seed) for m in matches]
    values: dict[str, dict[int, float]] = {label: {} for label in labels.values()}
    for result in results_of(ledger, planned, [column], runs=[matched.run for matched in matches]):
        if not math.isnan(result.value):
            values[str(result.key["label"])][result.seed] = result.value
    full = values.pop(FULL_LABEL)
    return ComponentWorth(column, full, values, leave_one_out(full, values))


def origin_of(source: str, ledger: Ledger | None, seeds: int | None, overrides: Mapping[str, Scalar]) -> Origin:
    """Returns the configuration of a run or of a sweep's best cell, with the settings of `overrides`.

    `source`: a run's folder or signature, or a sweep. Raises ConfigError for an unknown name, and for runs of a user's
    program.
    """
    run, name, sweep = _run_of(source, ledger)
    if ENCODER not in run:
        raise ConfigError([f"nothing to leave out: run={name} is of a program; its space may vary each parameter"])
    spec, resolved = (sweep.spec, space_of_sweep(sweep)) if sweep else (SweepSpec({}), None)
    flat = parse_run({**complete(run), **overrides}).flat()
    title = " ".join([name, *(f"{key}={value}" for key, value in sorted(overrides.items()))])
    return Origin(
        name=title,
        flat=flat,
        profile=spec.profile or "small",
        seeds=list(range(seeds) if seeds else spec.seeds or range(ABLATION_SEEDS)),
        evaluate=resolved.space.evaluate if resolved else (),
        components=resolved.space.components if resolved else {},
        plugins=_plugins(resolved.space) if resolved else (),
    )


def _run_of(source: str, ledger: Ledger | None) -> tuple[Mapping[str, Scalar], str, SweepRow | None]:
    """Returns a configuration by dotted key, its name, and the sweep from which it was chosen, if any."""
    if Path(source).is_dir():
        return _read_folder(Path(source), ledger)
    sweep = sweep_of(source, ledger)
    if ledger and sweep is not None:
        return require_finished(ledger, source)[0].best_run.config, source, sweep
    row = find_run(source, ledger) if ledger else None
    if row is None:
        raise ConfigError([f"no such run: run={source}; give a folder, a signature (cse trials) or a sweep (cse ls)"])
    return row.config, row.signature[:12], None


def _read_folder(folder: Path, ledger: Ledger | None) -> tuple[Mapping[str, Scalar], str, SweepRow | None]:
    run = RunFolder.around(folder).path
    row = row_of(run, ledger) if ledger else None
    if row is not None:
        return row.config, row.signature[:12], None
    return read_best(folder)[0].flat(), run.resolve().name, None
