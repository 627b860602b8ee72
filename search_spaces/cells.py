"""Applies a profile and command-line settings to a space, and lists its cells with all settings but the seed."""

import dataclasses
import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cse_train import methods
from cse_train.config import RunConfig, parse_run
from cse_train.fields import ConfigError, Scalar
from cse_train.plugins.options import Options
from cse_train.user_files import UserFile, map_files
from search_spaces import domains, keys
from search_spaces.domains import Domain
from search_spaces.paper import Evaluated, Key
from search_spaces.profiles import Profile, load_profile
from search_spaces.space import ExplicitCell, Space
from search_spaces.user_data import ENCODER, ROLES, read_settings

PART = "set_for"
"""Entry of a cell's key with the only suite for which the cell's runs are trained."""


@dataclass(frozen=True)
class Cell:
    """One point of a space: its axis values (`key`), and every setting of its runs except the seed."""

    key: Key
    """Axis -> value, in the space's order; an axis whose condition fails is absent."""
    settings: Mapping[str, Scalar]
    """Dotted keys and values without `train.seed`; settings at their defaults may be absent."""
    label: str | None = None

    @property
    def part(self) -> str | None:
        """The only suite for which the cell's runs are trained (`set_for:`); None for the runs of a whole row."""
        part = self.key.get(PART)
        return None if part is None else str(part)

    @functools.cached_property
    def id(self) -> str:
        """Key of the cell as canonical JSON, equal for equal cells."""
        return json.dumps(dict(self.key), sort_keys=True)

    @functools.cached_property
    def _run(self) -> RunConfig:
        return parse_run(self.settings)

    @functools.cached_property
    def flat(self) -> dict[str, Scalar]:
        """Settings of the cell's run with seed 0, defaults included."""
        return self._run.flat() | {"train.seed": 0}

    def run(self, seed: int) -> RunConfig:
        """Returns the cell's run with a seed; raises ConfigError with every problem of its settings."""
        if seed == self._run.train.seed:
            return self._run
        return dataclasses.replace(self._run, train=dataclasses.replace(self._run.train, seed=seed))


@dataclass(frozen=True)
class ResolvedSpace:
    """A space with a profile and command-line settings applied.

    Precedence, weakest first: profile `train`, profile `methods`, profile `recipes`, the file's `set`, axis values,
    `overrides`. An override of an axis narrows that axis to the one value. A profile may let another value run where an
    axis value has no place at its scale; the cell's key, and so its row, keeps the table's.
    """

    space: Space
    profile: Profile
    overrides: Mapping[str, Scalar]
    axes: Mapping[str, Domain]
    """Axes after the overrides, parents of conditions first.

    Values without a counterpart at this scale are left out.
    """
    given_files: tuple[UserFile, ...] = ()
    """Files of the user's own that the overrides name."""
    held: Mapping[str, Mapping[str, str | int]] = field(default_factory=dict)
    """Absolute path -> {input: content hash} as of when the sweep was recorded."""

    @property
    def files(self) -> tuple[UserFile, ...]:
        """Files of the user's own; a file of the overrides replaces the space's file of the same name."""
        return tuple(map_files([*self.space.files, *self.given_files]).values())

    def given(self) -> dict[str, Scalar]:
        """Returns the overrides as `--set` takes them, with files by their paths."""
        files = map_files(self.given_files)
        texts = {key: files.get((role == "corpus", str(self.overrides.get(key)))) for key, role in ROLES.items()}
        return {**self.overrides, **{key: file.text() for key, file in texts.items() if file}}

    @property
    def own_loop(self) -> type[Options] | None:
        """Options class of the space's method where that has a training loop of its own, without shared settings.

        Else None.
        """
        method = self.space.method
        config = methods.config_class(method) if method and methods.is_known(method) else None
        return config if config and config.SHARED is not None else None

    @property
    def fixed(self) -> dict[str, Scalar]:
        """Values besides axes that conditions may name: the space's method, if it has one."""
        return {"method": self.space.method} if self.space.method else {}

    def size(self) -> int | None:
        """Returns the number of rows; None where an axis is continuous or the product is too large to list."""
        return domains.size(self.axes, self.fixed) if self.axes else len(list(self._explicit()))

    def cells(self) -> list[Cell]:
        """Returns every cell in the file's order, each row's own before those for one of its columns.

        Raises ConfigError for a space that only a search can walk.
        """
        return list(self._cells)

    def rows(self) -> list[Cell]:
        """Returns the cells that are rows of the table, leaving out those for a single column."""
        return [cell for cell in self._cells if cell.part is None]

    def suites_of(self, key: Key) -> tuple[str, ...]:
        """Returns the suites that score the runs of a cell.

        A cell for one column has that suite; a row has all suites without such a cell.
        """
        if PART in key:
            return (str(key[PART]),)
        separate_suites = (
            [cell.part for cell in self._cells if {**key, PART: cell.part} == cell.key] if self.space.set_for else []
        )
        return tuple(suite for suite in self.space.evaluate if suite not in separate_suites)

    @functools.cached_property
    def _cells(self) -> tuple[Cell, ...]:
        if self.axes and self.size() is None:
            raise ConfigError([f"{self.space.file}: no finite list of cells: id={self.space.id}; give it a `search:`"])
        keys_of_axes = domains.assignments(self.axes, self.fixed) if self.axes else []
        listed = [self.cell(key) for key in keys_of_axes] if self.axes else self._explicit()
        cells = []
        for row in {cell.id: cell for cell in listed}.values():
            cells.append(row)
            for suite, settings in self.space.set_for.items():
                part = self.cell(row.key, row.label and f"{row.label}, {suite}", suite)
                # A row needs no cell for a column where its method lacks a key, or where the settings are the row's.
                if keys.have(settings, str(row.settings["method"])) and part.settings != row.settings:
                    cells.append(part)
        return tuple(cells)

    def cell(self, key: Mapping[str, Scalar], label: str | None = None, part: str | None = None) -> Cell:
        """Returns the cell with these axis values; `part` is the only suite for which its runs are trained, if any."""
        method = str(self.overrides.get("method", key.get("method", self.space.method)))
        ordered = {axis: key[axis] for axis in self.space.axis_names if axis in key}
        fixed = {**self.space.settings, **(self.space.set_for[part] if part else {})}
        settings = {"method": method, **self.profile.settings(method), **fixed, **ordered}
        counted = {k: v for k, v in self.overrides.items() if k not in self.axes or self.axes[k].active(settings)}
        recipe = self.profile.recipe({**settings, **counted})
        run = {axis: self.profile.substitution(axis, value, method) for axis, value in ordered.items()}
        cell_key = {**ordered, PART: part} if part else ordered
        return Cell(cell_key, {**settings, **recipe, **fixed, **run, **counted}, label)

    def contains(self, key: Mapping[str, Scalar]) -> bool:
        """Tells whether these axis values name a cell of this space."""
        return domains.contains(self.axes, self.fixed, key)

    def sample(self, rng: np.random.Generator) -> Cell:
        """Draws a random cell of the space."""
        return self.cell(domains.sample(self.axes, self.fixed, rng))

    def key_of(self, flat: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Returns the axis values of a run's flat configuration, for active axes only."""
        key: dict[str, Scalar] = {}
        for axis, domain in self.axes.items():
            if axis not in flat or not domain.active({**flat, **key}):
                continue
            run, method = flat[axis], str(flat["method"])
            values = domain.arguments if domain.finite and axis not in self.overrides else ()
            # The table's value that runs as this one under this profile.
            key[axis] = next((v for v in values if self.profile.substitution(axis, v, method) == run), run)
        return key

    def substitutions(self) -> dict[str, Scalar]:
        """Returns `axis=value` of the table -> value that runs in its place under this profile.

        None for one left out.
        """
        names = self.space.methods()
        triples = [(a, v, m) for a, d in self.space.axes.items() if d.finite for v in d.values() for m in names]
        triples += [(a, v, self._method_of(c)) for c in self.space.cells for a, v in c.settings.items()]
        runs = [(a, v, self.profile.substitution(a, v, m)) for a, v, m in triples if a not in self.overrides]
        return {f"{axis}={value}": run for axis, value, run in runs if run != value}

    def evaluated(self) -> dict[str, Evaluated | None]:
        """Returns row label of the paper -> model that is scored without training; None without a counterpart.

        The profile replaces an encoder as it does that of the table's own setting; `--set` applies to cells only.
        """
        rows = self.space.paper.references if self.space.paper else ()
        return {row.label: self._counterpart(row.evaluated) for row in rows if row.evaluated}

    def suites(self) -> tuple[str, ...]:
        """Returns the suites that score the space's runs and its models without training."""
        paper, named = self.space.paper, self.space.evaluate
        rows = [row for row in paper.references if row.evaluated] if paper else []
        of_rows = [suite for row in rows if paper for suite in paper.suites_of(row, named).values()]
        return tuple(dict.fromkeys([*named, *of_rows]))

    def _counterpart(self, model: Evaluated) -> Evaluated | None:
        if model.vectors:
            return model
        default = self.space.paper.default if self.space.paper else None
        method = str((default or {}).get("method", self.space.methods()[0]))
        run = self.profile.substitution(ENCODER, model.encoder, method)
        return None if run is None else dataclasses.replace(model, encoder=str(run))

    def _method_of(self, cell: ExplicitCell) -> str:
        return str(cell.settings.get("method", self.space.method))

    def _explicit(self) -> Iterator[Cell]:
        """Yields the space's listed cells under the overrides.

        Where cells name their methods, an override of `method` keeps the cells that name it.
        """
        methods = {row.settings.get("method") for row in self.space.cells}
        override = self.overrides.get("method")
        for row in self.space.cells:
            if override is not None and override in methods and row.settings.get("method") != override:
                continue
            axis_values = {
                axis: row.settings.get(axis, self.space.settings.get(axis)) for axis in self.space.axis_names
            }
            changed = {axis: value for axis, value in self.overrides.items() if axis in axis_values}
            method, free = self._method_of(row), {axis: v for axis, v in axis_values.items() if axis not in changed}
            if any(self.profile.leaves_out(axis, v, method) for axis, v in free.items()):
                continue
            yield self.cell({axis: v for axis, v in {**axis_values, **changed}.items() if v is not None}, row.label)


def resolve(
    space: Space,
    profile: str | Profile | None = None,
    overrides: Mapping[str, Scalar] | None = None,
    *,
    absolute: bool = False,
) -> ResolvedSpace:
    """Applies a profile (default: the file's own) and command-line settings; raises ConfigError where they do not fit.

    Relative paths of settings count from the shell's folder unless `absolute` is set.
    """
    overrides, files = read_settings(overrides or {}, None if absolute else Path.cwd())
    if not isinstance(profile, Profile):
        profile = load_profile(profile or space.profile)
    candidates = [str(overrides["method"])] if "method" in overrides else space.methods()
    problems = [f"--set: {line}" for line in _override_problems(space, overrides, candidates)]
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    overrides = {k: keys.normal(k, v, _methods_with(space, k, candidates)[0]) for k, v in overrides.items()}
    axes = {}
    for name, domain in space.axes.items():
        if name in overrides:
            domain = dataclasses.replace(domain, word="grid", arguments=(overrides[name],))
        elif domain.word in ("grid", "choice"):
            leaves_out = functools.partial(profile.leaves_out, name)
            left = (v for v in domain.arguments if not all(leaves_out(v, method) for method in candidates))
            domain = dataclasses.replace(domain, arguments=tuple(left))
        axes[name] = domain
    empty = [name for name, domain in axes.items() if not domain.arguments]
    if empty:
        line = f"nothing left: space.{empty[0]} has no value with a counterpart at profile {profile.name}"
        raise ConfigError([f"{space.file}: {line}; choose another profile"])
    return ResolvedSpace(space, profile, overrides, axes, files)


def _override_problems(space: Space, overrides: Mapping[str, Scalar], candidates: list[str]) -> list[str]:
    problems = []
    for key, value in overrides.items():
        problems += keys.problems({key: value}, _methods_with(space, key, candidates))
    if "method" in overrides and not problems:
        free = {name: d.arguments[0] for name, d in space.axes.items() if not d.when and name != "method"}
        problems = keys.problems({**space.settings, **free}, candidates)
    return problems


def _methods_with(space: Space, key: str, candidates: list[str]) -> list[str]:
    """Returns the candidate methods for which a key counts; all of them where it is no axis or counts for none."""
    return (space.axes[key].methods(candidates) if key in space.axes else candidates) or candidates


def full_key(resolved: ResolvedSpace, key: Key) -> dict[str, Scalar]:
    """Returns a row's key with every axis, None for axes that are inactive; a cell for one column keeps its suite."""
    part = {PART: key[PART]} if PART in key else {}
    return {axis: key.get(axis) for axis in resolved.space.axis_names} | part


def sweep_name(resolved: ResolvedSpace) -> str:
    """Returns the space's ID with what differs from its file: `E7`, `E7@paper`, `E7 train.examples=640`."""
    space, profile = resolved.space, resolved.profile
    name = space.id if profile.name == space.profile else f"{space.id}@{profile.name}"
    return " ".join([name, *(f"{key}={value}" for key, value in sorted(resolved.overrides.items()))])


def setups(resolved: ResolvedSpace) -> list[dict[str, Scalar]]:
    """Returns every cell's settings with defaults included; for an endless space those of one random cell."""
    return [cell.flat for cell in some_cells(resolved)]


def some_cells(resolved: ResolvedSpace) -> list[Cell]:
    """Returns every cell; for an endless space one random cell."""
    return [resolved.sample(np.random.default_rng(0))] if resolved.size() is None else resolved.cells()


PAPER_PROFILE = "paper"
