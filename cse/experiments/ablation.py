"""Leave-one-out ablations: a space with one configuration in full, and without each of its components."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from analysis.answers.lookup import find_run, row_of, space_of_sweep, sweep_of
from analysis.answers.selection import require_finished
from analysis.ledger import Ledger
from analysis.ledger.schema import digest
from analysis.run_folder import RunFolder
from analysis.sweep_spec import SweepSpec
from cse_train.checkpoint import read_best
from cse_train.config import complete, parse_run
from cse_train.fields import ConfigError, Scalar
from cse_train.files import replace_text
from search_spaces.catalog import catalog, load_space
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


def plugins_of(space: Space) -> list[str]:
    """Returns a space's plug-ins so that they resolve from any folder: files as absolute paths, modules by name."""
    paths = [(space.file.absolute().parent / source, source) for source in space.plugins]
    return [str(path) if path.exists() else source for path, source in paths]


ABLATION_SEEDS = 3
"""Number of seeds of an ablation that starts from a single run."""


def is_ablation(space: Space) -> bool:
    """Returns True if a space has the form that `ablation` makes: the full configuration, then one without each
    component."""
    labels = [str(cell.label) for cell in space.cells or ()]
    return labels[:1] == [FULL_LABEL] and all(label.startswith(WITHOUT) for label in labels[1:])


def origin_of(source: str, ledger: Ledger | None, seeds: int | None, overrides: Mapping[str, Scalar]) -> Origin:
    """Returns the configuration of a run or of a sweep's best cell, with the settings of `overrides`.

    `source`: a run's folder or signature, or a sweep. Raises ConfigError for an unknown name, and for runs of a user's
    program.
    """
    sweep = None
    if Path(source).is_dir():
        folder = RunFolder.around(Path(source)).path
        row = row_of(folder, ledger) if ledger else None
        run, name = read_best(Path(source))[0].flat() if row is None else row.config, folder.resolve().name
    else:
        sweep = sweep_of(source, ledger)
        row = find_run(source, ledger) if ledger and sweep is None else None
        if ledger and sweep is not None:
            run, name = require_finished(ledger, source)[0].best_run.config, source
        elif row is not None:
            run = row.config
        else:
            line = f"no such run: run={source}; give a folder, a signature (cse trials) or a sweep (cse ls)"
            raise ConfigError([line])
    if row is not None:
        name = row.signature[:12]
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
        plugins=plugins_of(resolved.space) if resolved else (),
    )
