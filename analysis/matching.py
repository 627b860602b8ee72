"""Finds the runs of a space in a ledger, by the settings of its cells and the signature that today's code gives.

A table averages runs on one data set by one code only, and says which one: the newest, or the one that is asked for.
"""

import contextlib
import itertools
import json
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from analysis.ledger import RunRow
from analysis.run_state import RunState
from cse_train.config import RunConfig, complete, effective, parse_run
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError, Scalar
from search_spaces.cells import Cell, ResolvedSpace, full_key, some_cells
from search_spaces.identity.method_code import AS_RELEASED
from search_spaces.identity.signature import (
    CODE,
    LENGTH,
    Identity,
    find_setting,
    inputs_at_hand,
    list_signatures,
    seed_signature,
)
from search_spaces.keys import SEED
from search_spaces.paper import Key

Sign = Callable[[RunConfig], str]
SeedSign = Callable[[int], str]


@dataclass(frozen=True)
class MatchedRun:
    """A run with the cell of the space that it belongs to."""

    cell: Cell
    key: Key
    """Key of the cell's row in the table: a value for every axis, None for an axis that the cell does not use."""
    run: RunRow

    @property
    def planned(self) -> tuple[Key, str, int]:
        """Row key, signature and seed of the run, as tables ask for their runs."""
        return self.key, self.run.signature, self.run.seed


@dataclass(frozen=True)
class Observation:
    """State and best score of one (cell, seed)."""

    cell: Cell
    seed: int
    state: RunState
    """State of the run; `failed` where its score is not finite."""
    value: float | None = None
    """Best dev score so far; None if there is none."""
    examples: int | None = None
    """Training examples at the run's end or last report."""
    live: bool = False
    """True if a live driver holds the run."""

    @property
    def final(self) -> bool:
        """True if the run will not change any more by itself."""
        return self.state.is_final


def make_observation(
    cell: Cell, seed: int, state: RunState, value: float | None, examples: int | None = None, live: bool = False
) -> Observation:
    """Returns an observation; a NaN or infinite score makes it a failure."""
    finite = value is not None and math.isfinite(value)
    if state.has_result and not finite:
        return Observation(cell, seed, RunState.FAILED, live=live)
    return Observation(cell, seed, state, value if finite else None, examples, live)


def match(
    resolved: ResolvedSpace, rows: Iterable[RunRow], seeds: Sequence[int] | None = None, *, any_inputs: bool = False
) -> list[MatchedRun]:
    """Returns the runs of a space's cells in any state, one per (cell, seed); runs by other VERSIONs or rules do not
    count.

    A setting that names an input is compared by content where that is available, so that files may have moved. All runs
    are on one data set, the newest (`one_data_set`), and on the content of absolute paths now; `any_inputs` returns
    runs on other data too.
    """
    matcher = RunMatcher(resolved)
    seed_rows = (row for row in rows if seeds is None or row.seed in seeds)
    matches = [MatchedRun(cell, matcher.row_key(cell), row) for row in seed_rows for cell in matcher.cells(row)]
    if any_inputs:
        return matches
    candidates, _ = _keep_matching_paths(resolved, matches)
    return one_data_set([m.run for m in candidates], [m.run for m in matches]).choose(candidates)


def match_on(
    resolved: ResolvedSpace,
    rows: Iterable[RunRow],
    seeds: Sequence[int] | None = None,
    *,
    paths: DataPaths | None = None,
    data_hash: str | None = None,
) -> tuple[list[MatchedRun], list[str]]:
    """Returns the runs of a space's cells on given inputs, and a line on runs that were left out.

    The inputs are those in `paths`, or those with a hash that begins with `data_hash`. An input in neither is taken to
    be the newest. Raises ConfigError where no run has the hash.
    """
    every, available = match(resolved, rows, seeds, any_inputs=True), dict[str, Identity]()
    candidates, path_hashes = (every, {}) if data_hash else _keep_matching_paths(resolved, every)
    if paths is not None:
        for matched in every:
            if matched.cell.id not in available:
                available[matched.cell.id] = inputs_at_hand(matched.cell.run(0), paths)
        candidates = [m for m in every if available[m.cell.id].items() <= m.run.identity.items()]
    data = one_data_set([matched.run for matched in candidates], [matched.run for matched in every], data_hash)
    return data.choose(candidates), replace(data, path_hashes=path_hashes).notes()


def _keep_matching_paths(resolved: ResolvedSpace, matches: Sequence[MatchedRun]) -> tuple[list[MatchedRun], Identity]:
    """Returns the runs whose inputs equal what the paths of their cells hold now, as far as files exist, and the
    hashes for the last run that was left out."""
    inputs = AvailableInputs(resolved)
    kept, hashes = list[MatchedRun](), Identity()
    for matched in matches:
        at_paths = inputs.hash_absolute_paths(matched.cell)
        if at_paths.items() <= matched.run.identity.items():
            kept.append(matched)
        else:
            hashes = at_paths
    return kept, hashes


def hash_paths(resolved: ResolvedSpace) -> dict[str, Identity]:
    """Returns absolute path that cells name -> content hashes of what it holds now; missing files are left out."""
    inputs, hashes_by_path = AvailableInputs(resolved), defaultdict[str, Identity](dict)
    seen = set[tuple[str, Scalar]]()
    for cell in some_cells(resolved):
        paths = {(key, value) for key, value in cell.flat.items() if isinstance(value, str) and value.startswith("/")}
        if not paths <= seen:
            for part, digest in inputs.hash_absolute_paths(cell).items():
                hashes_by_path[str(cell.flat[str(find_setting(part))])][part] = digest
        seen |= paths
    return dict(hashes_by_path)


class AvailableInputs:
    """Content hashes of the inputs of cells, of files as they are now or as recorded with the sweep; cached."""

    def __init__(self, resolved: ResolvedSpace) -> None:
        self._paths = DataPaths(files=resolved.files)
        self._recorded = resolved.held
        self._hashes: dict[str, Identity] = {}
        self._path_hashes: dict[str, Identity] = {}

    def hash_inputs(self, cell: Cell) -> Identity:
        """Returns input -> content hash, for the inputs of a cell that are available without any `--data`."""
        if cell.id not in self._hashes:
            # Files may be gone since the sweep recorded their content.
            recorded = {
                part: digest
                for key, value in cell.flat.items()
                for part, digest in self._recorded.get(str(value), {}).items()
                if find_setting(part) == key
            }
            self._hashes[cell.id] = recorded | inputs_at_hand(cell.run(0), self._paths)
        return self._hashes[cell.id]

    def hash_absolute_paths(self, cell: Cell) -> Identity:
        """Returns input -> content hash, for inputs that a cell names by absolute paths, whose content may change."""
        if cell.id not in self._path_hashes:
            paths = {key for key, value in cell.flat.items() if isinstance(value, str) and value.startswith("/")}
            hashes = self.hash_inputs(cell) if paths else {}
            self._path_hashes[cell.id] = {part: value for part, value in hashes.items() if find_setting(part) in paths}
        return self._path_hashes[cell.id]

    def fit(self, cell: Cell, row: RunRow) -> bool:
        """Returns whether a cell has the inputs of a row: equal names, or equal content under other names."""
        names = [(part, name) for part in row.identity if (name := find_setting(part)) is not None]
        renamed = [part for part, name in names if cell.flat.get(name) != row.config.get(name)]
        return all(self.hash_inputs(cell).get(part) == row.identity[part] for part in renamed)


class RunMatcher:
    """Finds the cells of a space for rows of a ledger, with a cache by signature."""

    def __init__(self, resolved: ResolvedSpace, sign: Sign | None = None, *, any_code: bool = False) -> None:
        """Takes `sign(run)`, which returns the signature with the available inputs. Without it, a run on any inputs
        belongs to the space, and with `any_code` also a run by any VERSION and rules."""
        self._any_code = any_code
        self._resolved, self._sign, self._available = resolved, sign, AvailableInputs(resolved)
        self._methods, self._finite = set(resolved.space.methods()), resolved.size() is not None
        self._cells: dict[str, Sequence[Cell]] = {}
        self._by_settings: dict[frozenset[str], dict[str, list[Cell]]] = {}
        self._cells_by_inputs: dict[
            tuple[str, str, tuple[tuple[str, str | int], ...]], tuple[Sequence[Cell], SeedSign]
        ] = {}
        self._row_keys: dict[str, Key] = {}

    def cells(self, row: RunRow) -> Sequence[Cell]:
        """Returns the cells whose run has the row's signature; several where a profile makes cells equal."""
        if row.signature not in self._cells:
            self._cells[row.signature] = self._find_by_signature(row) if self._sign else self._find_by_inputs(row)
        return self._cells[row.signature]

    def row_key(self, cell: Cell) -> Key:
        """Returns the key of the table's row for a cell (`full_key`)."""
        if cell.id not in self._row_keys:
            self._row_keys[cell.id] = full_key(self._resolved, cell.key)
        return self._row_keys[cell.id]

    def observations(self, rows: Iterable[RunRow]) -> list[Observation]:
        """Returns an observation for each row that is a run of the space, in the rows' order."""
        return [
            make_observation(cell, row.seed, row.state, row.best, row.examples, row.live)
            for row in rows
            for cell in self.cells(row)
        ]

    def _find_by_signature(self, row: RunRow) -> Sequence[Cell]:
        """Returns the cell whose signature with the available inputs is the row's; files may have moved."""
        assert self._sign is not None
        for cell in self._find_by_axes(row) if row.method in self._methods else ():
            with contextlib.suppress(ConfigError):
                if self._sign(cell.run(row.seed)) == row.signature:
                    return [cell]
        return []

    def _find_by_inputs(self, row: RunRow) -> Sequence[Cell]:
        """Returns the cells that have a row's settings and, computed with the row's own inputs, its signature."""
        inputs_key = row.method, row.settings or _settings(row.config), tuple(row.identity.items())
        if inputs_key not in self._cells_by_inputs:
            fitting = [cell for cell in self._find_by_settings(row) if self._available.fit(cell, row)]
            sign = seed_signature(fitting[0].run(0), row.identity) if fitting else lambda _: ""
            self._cells_by_inputs[inputs_key] = fitting, sign
        cells, sign = self._cells_by_inputs[inputs_key]
        return cells if self._any_code or sign(int(row.config.get(SEED) or 0)) == row.signature else []

    def _find_by_settings(self, row: RunRow) -> Sequence[Cell]:
        """Returns the cells that differ from a row at most in the names of its inputs."""
        inputs = _names(row)
        settings = _settings(row.config, inputs)
        if not self._finite:
            return [cell for cell in self._find_by_axes(row) if _settings(cell.flat, inputs) == settings]
        if inputs not in self._by_settings:
            by_settings = defaultdict(list)
            for cell in self._resolved.cells():
                by_settings[_settings(cell.flat, inputs)].append(cell)
            self._by_settings[inputs] = dict(by_settings)
        return self._by_settings[inputs].get(settings, [])

    def _find_by_axes(self, row: RunRow) -> Iterator[Cell]:
        """Yields the cell of a row's settings, then the cells where an axis names the row's inputs otherwise."""
        key, seen_choices = self._resolved.key_of(complete({"method": row.method, **row.config})), set()
        inputs = [axis for axis in self._resolved.axes if axis in key and axis in _names(row)]
        values = [self._resolved.axes[axis].arguments for axis in inputs]
        for choice in ([key[axis] for axis in inputs], *itertools.product(*values)):
            renamed = {**key, **dict(zip(inputs, choice, strict=True))}
            if tuple(choice) not in seen_choices and self._resolved.contains(renamed):
                yield self._resolved.cell(renamed)
            seen_choices.add(tuple(choice))


def _names(row: RunRow) -> frozenset[str]:
    """Returns the settings that name the inputs of a row."""
    return frozenset(name for part in row.identity if (name := find_setting(part)) is not None)


def _settings(flat: Mapping[str, Scalar], excluded: Collection[str] = ()) -> str:
    """Returns the effective settings as one string, without the seed and those in `excluded`."""
    settings = {key: value for key, value in effective(flat).items() if key != SEED and key not in excluded}
    return json.dumps(settings, sort_keys=True)


NAMED_BY = {
    "encoder": "train.encoder",
    "tokenizer": "train.encoder",
    "corpus": "train.corpus",
    "dev": "train.dev",
    "version": "method",
    "code": "method",
}
"""Input of a run -> the setting that names it; an option of the method names an input that only the method has."""
NO_HASH = ("version", "workers")
"""Inputs whose value is a number, not a content hash."""
DATA_DIGITS = 8
"""Number of hexadecimal digits of a content hash in messages."""

Content = tuple[str, str, str]
"""Input, its name in the settings, and the hash of its content."""


@dataclass(frozen=True)
class DataSet:
    """Runs on one data set by one code, and the runs on others, which a table leaves out."""

    signatures: frozenset[str]
    left_out: Sequence[RunRow]
    contents: frozenset[Content]
    """Contents of the inputs of the chosen runs."""
    path_hashes: Mapping[str, str | int] = field(default_factory=dict)
    """Input -> hash of the content at the paths that a cell names."""

    def choose(self, matches: Iterable[MatchedRun]) -> list[MatchedRun]:
        """Returns the matches on this data set, the last one of each cell and seed."""
        return list({(m.cell.id, m.run.seed): m for m in matches if m.run.signature in self.signatures}.values())

    def notes(self) -> list[str]:
        """Returns a line on the runs that are left out: in which inputs they differ, and how to show them."""
        other_contents = sorted({content for run in self.left_out for content in contents(run)} - self.contents)
        if not self.signatures and self.path_hashes:  # nothing is left to compare with but what lies here
            other_contents = [content for content in other_contents if content[0] in self.path_hashes]
            other_contents = [content for content in other_contents if content[2] != self.path_hashes[content[0]]]
        if not other_contents:
            return []
        names = ", ".join(f"{part} {shorten_hash(value)}" for part, _, value in other_contents)
        runs = "1 run" if len(self.left_out) == 1 else f"{len(self.left_out)} runs"
        prefix = next((shorten_hash(value) for part, _, value in other_contents if part not in NO_HASH), None)
        advice = f"; --data-hash {prefix} shows them" if prefix else ""
        return [f"{runs} on other inputs or by other code: not shown ({names}){advice}"]


def contents(run: RunRow) -> frozenset[Content]:
    """Returns the inputs of a run with their hashes, without its length, which follows from the corpus."""
    inputs: dict[str, str | int] = {CODE: AS_RELEASED, **run.identity}
    return frozenset(
        (part, str(run.config.get(NAMED_BY.get(part, part), "")), str(value))
        for part, value in inputs.items()
        if part != LENGTH
    )


def _map_contents(runs: Iterable[RunRow]) -> dict[str, frozenset[Content]]:
    """Returns signature -> `contents` of the run; runs with equal settings and inputs share one set."""
    cache: dict[tuple[object, ...], frozenset[Content]] = {}
    by_signature = {}
    for run in runs:
        key = (run.settings or run.signature, *run.identity.items())
        if key not in cache:
            cache[key] = contents(run)
        by_signature[run.signature] = cache[key]
    return by_signature


def one_data_set(runs: Sequence[RunRow], every: Sequence[RunRow], data_hash: str | None = None) -> DataSet:
    """Chooses, from runs on several data sets, those on the newest, finished runs first: a table has one content per
    name.

    `every` holds all runs of the table; those not chosen are left out. Each chosen run has an input whose hash begins
    with `data_hash`. Raises ConfigError where no run has one.
    """
    contents_of = _map_contents({run.signature: run for run in (*every, *runs)}.values())
    candidates = [
        run
        for run in runs
        if data_hash is None
        or any(part not in NO_HASH and value.startswith(data_hash) for part, _, value in contents_of[run.signature])
    ]
    if data_hash and not candidates:
        hashes = sorted(
            {f"{part} {shorten_hash(value)}" for run in every for part, _, value in contents_of[run.signature]}
        )
        raise ConfigError([f"no such data: --data-hash={data_hash}; the runs have {', '.join(hashes) or 'none'}"])
    newest: dict[tuple[str, str], str] = {}
    latest_first = sorted(candidates, key=lambda run: (run.state == RunState.DONE, run.updated))[::-1]
    # Oldest first, so that the newest content of a name overwrites the others.
    for content in reversed(dict.fromkeys(contents_of[run.signature] for run in latest_first)):
        newest |= {(part, name): value for part, name, value in content}
    newest_contents = {(part, name, value) for (part, name), value in newest.items()}
    chosen_runs = [run for run in candidates if contents_of[run.signature] <= newest_contents]
    signatures = frozenset(run.signature for run in chosen_runs)
    chosen_contents = frozenset(itertools.chain(*{contents_of[run.signature] for run in chosen_runs}))
    return DataSet(signatures, [run for run in every if run.signature not in signatures], chosen_contents)


def shorten_hash(value: str) -> str:
    """Returns the first digits of a hash; a shorter value is returned whole."""
    return value[:DATA_DIGITS] if len(value) >= 2 * DATA_DIGITS else value


def add_versions(runs: Iterable[RunRow]) -> list[RunRow]:
    """Returns runs with the VERSION of the method's code among their inputs, `unknown` where no VERSION fits the
    signature.

    A ledger row does not hold it: of the VERSIONs up to today's, the one that gives the row's signature counts.
    """
    signs: dict[str, Mapping[int, Callable[[int], str]]] = {}
    return [_add_version(run, signs) for run in runs]


def _add_version(run: RunRow, signs: dict[str, Mapping[int, Callable[[int], str]]]) -> RunRow:
    settings = {key: value for key, value in run.config.items() if key != SEED}
    key = json.dumps([run.method, settings, run.identity], sort_keys=True)
    if key not in signs:
        try:
            config = parse_run(complete({"method": run.method, **settings}))
            signs[key] = list_signatures(config, run.identity)
        except ConfigError:  # of a method or an option that is gone
            signs[key] = {}
    versions = [version for version, sign in signs[key].items() if sign(run.seed) == run.signature]
    return replace(run, identity={**run.identity, "version": versions[0] if versions else "unknown"})
