"""Which runs of a ledger are runs of a space: by its cells' settings, and by the signature that today's code gives."""

import contextlib
import itertools
import json
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.ledger import RunRow
from analysis.matching.data_sets import one_data_set
from analysis.run_state import RunState
from cse_train.config import RunConfig, complete, effective
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError, Scalar
from search_spaces.cells import Cell, ResolvedSpace, full_key, some_cells
from search_spaces.identity.signature import Identity, find_setting, inputs_at_hand, seed_signature
from search_spaces.keys import SEED
from search_spaces.paper import Key

Sign = Callable[[RunConfig], str]
SeedSign = Callable[[int], str]


@dataclass(frozen=True)
class MatchedRun:
    """A run and the cell that it is a run of."""

    cell: Cell
    key: Key
    """The cell's row of the table: every axis, None for one that does not count there."""
    run: RunRow

    @property
    def planned(self) -> tuple[Key, str, int]:
        """(row key, signature, seed), as tables ask for their runs."""
        return self.key, self.run.signature, self.run.seed


@dataclass(frozen=True)
class Observation:
    """One (cell, seed) and how it stands."""

    cell: Cell
    seed: int
    state: RunState
    """`failed` where its number is not finite."""
    value: float | None = None
    """Best dev score so far."""
    examples: int | None = None
    """Training examples behind `value`."""
    live: bool = False
    """Held right now by a driver that is alive."""

    @property
    def final(self) -> bool:
        """Whether this run will not change any more by itself."""
        return self.state.is_final


def make_observation(
    cell: Cell, seed: int, state: RunState, value: float | None, examples: int | None = None, live: bool = False
) -> Observation:
    """An observation; NaN and infinite scores are failures."""
    finite = value is not None and math.isfinite(value)
    if state.has_result and not finite:
        return Observation(cell, seed, RunState.FAILED, live=live)
    return Observation(cell, seed, state, value if finite else None, examples, live)


def match(
    resolved: ResolvedSpace, rows: Iterable[RunRow], seeds: Sequence[int] | None = None, *, any_inputs: bool = False
) -> list[MatchedRun]:
    """The runs of a space's cells, in any state, one per (cell, seed); those by another VERSION or other rules are not.

    A setting that names an input is compared by content where that is at hand, so that files may have moved. All are
    on one data set, the newest (`one_data_set`), and on what paths hold now; `any_inputs` keeps those on others too.
    """
    matcher = RunMatcher(resolved)
    wanted = (row for row in rows if seeds is None or row.seed in seeds)
    matches = [MatchedRun(cell, matcher.row_key(cell), row) for row in wanted for cell in matcher.cells(row)]
    return matches if any_inputs else _choose_data_set(_keep_behind_paths(resolved, matches)[0], matches, None)[0]


def match_on(
    resolved: ResolvedSpace,
    rows: Iterable[RunRow],
    seeds: Sequence[int] | None = None,
    *,
    paths: DataPaths | None = None,
    data_hash: str | None = None,
) -> tuple[list[MatchedRun], list[str]]:
    """`match` on the inputs at hand (`paths`), or on the data of which a hash begins so; a line on runs left aside.

    What of the inputs is not at hand is taken to be the newest. ConfigError where no run has the hash.
    """
    every = match(resolved, rows, seeds, any_inputs=True)
    wanted, at_hand = (every, {}) if data_hash else _keep_behind_paths(resolved, every)
    return _choose_data_set(wanted if paths is None else _keep_at_hand(every, paths), every, data_hash, at_hand)


def _choose_data_set(
    wanted: Sequence[MatchedRun],
    every: Sequence[MatchedRun],
    data_hash: str | None,
    at_hand: Mapping[str, str | int] | None = None,
) -> tuple[list[MatchedRun], list[str]]:
    data = one_data_set([matched.run for matched in wanted], [matched.run for matched in every], data_hash)
    kept = {(m.cell.id, m.run.seed): m for m in wanted if m.run.signature in data.signatures}
    return list(kept.values()), replace(data, at_hand=at_hand or {}).notes()


def _keep_behind_paths(resolved: ResolvedSpace, matches: Sequence[MatchedRun]) -> tuple[list[MatchedRun], Identity]:
    """The runs on what the paths of their cells hold, as far as something is there; and what the last of these hold."""
    at_hand = InputsAtHand(resolved)
    others = [m for m in matches if not at_hand.behind_paths(m.cell).items() <= m.run.identity.items()]
    aside = {id(m) for m in others}
    return [m for m in matches if id(m) not in aside], at_hand.behind_paths(others[-1].cell) if others else {}


def _keep_at_hand(matches: Iterable[MatchedRun], paths: DataPaths) -> list[MatchedRun]:
    """The runs whose inputs are those at hand, as far as there are any."""
    given: dict[str, Identity] = {}
    for matched in matches:
        if matched.cell.id not in given:
            given[matched.cell.id] = inputs_at_hand(matched.cell.run(0), paths)
    return [m for m in matches if given[m.cell.id].items() <= m.run.identity.items()]


def hash_paths(resolved: ResolvedSpace) -> dict[str, Identity]:
    """Absolute path that cells name -> content hashes of what it holds now, without those where nothing is."""
    at_hand, held = InputsAtHand(resolved), defaultdict[str, Identity](dict)
    seen = set[tuple[str, Scalar]]()
    for cell in some_cells(resolved):
        named = {(key, value) for key, value in cell.flat.items() if isinstance(value, str) and value.startswith("/")}
        if not named <= seen:
            for part, digest in at_hand.behind_paths(cell).items():
                held[str(cell.flat[str(find_setting(part))])][part] = digest
        seen |= named
    return dict(held)


class InputsAtHand:
    """What the inputs of cells hold on this machine now, or held when their sweep was recorded; looked at once."""

    def __init__(self, resolved: ResolvedSpace) -> None:
        self._paths = DataPaths(files=resolved.files)
        self._held = resolved.held
        self._known: dict[str, Identity] = {}
        self._behind_paths: dict[str, Identity] = {}

    def of(self, cell: Cell) -> Identity:
        """Input -> content hash, of those that are at hand without any `--data`."""
        if cell.id not in self._known:
            self._known[cell.id] = self._read_recorded(cell) | inputs_at_hand(cell.run(0), self._paths)
        return self._known[cell.id]

    def _read_recorded(self, cell: Cell) -> Identity:
        """Of what is not here any more."""
        paths = {key: self._held.get(str(value), {}) for key, value in cell.flat.items()} if self._held else {}
        return {
            part: digest for key, held in paths.items() for part, digest in held.items() if find_setting(part) == key
        }

    def behind_paths(self, cell: Cell) -> Identity:
        """The same of inputs that the cell names by absolute paths: these stand for their content, whatever it was."""
        if cell.id not in self._behind_paths:
            paths = {key for key, value in cell.flat.items() if isinstance(value, str) and value.startswith("/")}
            hashes = self.of(cell) if paths else {}
            self._behind_paths[cell.id] = {part: value for part, value in hashes.items() if find_setting(part) in paths}
        return self._behind_paths[cell.id]

    def fit(self, cell: Cell, row: RunRow) -> bool:
        """Whether the cell names the row's inputs as the row does, or holds the same under other names."""
        names = [(part, name) for part in row.identity if (name := find_setting(part)) is not None]
        renamed = [part for part, name in names if cell.flat.get(name) != row.config.get(name)]
        return all(self.of(cell).get(part) == row.identity[part] for part in renamed)


class RunMatcher:
    """Recognises the runs of a space row by row; a row that was looked at once is not computed again."""

    def __init__(self, resolved: ResolvedSpace, sign: Sign | None = None, *, any_code: bool = False) -> None:
        """`sign(run)`: the signature with the inputs at hand; without it a run on any inputs is a run of the space, and
        with `any_code` one by any VERSION and rules too."""
        self._any_code = any_code
        self._resolved, self._sign, self._at_hand = resolved, sign, InputsAtHand(resolved)
        self._methods, self._finite = set(resolved.space.methods()), resolved.size() is not None
        self._cells: dict[str, Sequence[Cell]] = {}
        self._by_settings: dict[frozenset[str], dict[str, list[Cell]]] = {}
        self._alike_in: dict[tuple[str, str, tuple[tuple[str, str | int], ...]], tuple[Sequence[Cell], SeedSign]] = {}
        self._row_keys: dict[str, Key] = {}

    def cells(self, row: RunRow) -> Sequence[Cell]:
        """The cells whose run has the row's signature; several where a profile lets them run alike."""
        if row.signature not in self._cells:
            self._cells[row.signature] = self._find_by_signature(row) if self._sign else self._find_alike(row)
        return self._cells[row.signature]

    def row_key(self, cell: Cell) -> Key:
        """The key of the cell's row of the table (`full_key`)."""
        if cell.id not in self._row_keys:
            self._row_keys[cell.id] = full_key(self._resolved, cell.key)
        return self._row_keys[cell.id]

    def observations(self, rows: Iterable[RunRow]) -> list[Observation]:
        """The rows that are runs of this space, in the rows' order."""
        return [
            make_observation(cell, row.seed, row.state, row.best, row.examples, row.live)
            for row in rows
            for cell in self.cells(row)
        ]

    def _find_by_signature(self, row: RunRow) -> Sequence[Cell]:
        """With the inputs at hand: names stand for their content, so that a corpus may have moved."""
        assert self._sign is not None
        for cell in self._find_by_axes(row) if row.method in self._methods else ():
            with contextlib.suppress(ConfigError):
                if self._sign(cell.run(row.seed)) == row.signature:
                    return [cell]
        return []

    def _find_alike(self, row: RunRow) -> Sequence[Cell]:
        """With the row's own inputs: the cells that have its settings."""
        by = row.method, row.settings or _settings(row.config), tuple(row.identity.items())
        if by not in self._alike_in:
            fitting = [cell for cell in self._find_by_settings(row) if self._at_hand.fit(cell, row)]
            sign = seed_signature(fitting[0].run(0), row.identity) if fitting else lambda _: ""
            self._alike_in[by] = fitting, sign
        cells, sign = self._alike_in[by]
        return cells if self._any_code or sign(int(row.config.get(SEED) or 0)) == row.signature else []

    def _find_by_settings(self, row: RunRow) -> Sequence[Cell]:
        """The cells that differ from the row in the names of its inputs at most."""
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
        """The cell of the row's settings, then those at which an axis names its inputs otherwise."""
        key, seen = self._resolved.key_of(complete({"method": row.method, **row.config})), set()
        inputs = [axis for axis in self._resolved.axes if axis in key and axis in _names(row)]
        values = [self._resolved.axes[axis].arguments for axis in inputs]
        for chosen in ([key[axis] for axis in inputs], *itertools.product(*values)):
            renamed = {**key, **dict(zip(inputs, chosen, strict=True))}
            if tuple(chosen) not in seen and self._resolved.contains(renamed):
                yield self._resolved.cell(renamed)
            seen.add(tuple(chosen))


def _names(row: RunRow) -> frozenset[str]:
    """The settings that name the row's inputs."""
    return frozenset(name for part in row.identity if (name := find_setting(part)) is not None)


def _settings(flat: Mapping[str, Scalar], without: Collection[str] = ()) -> str:
    """The settings that count but the seed and those of `without`, as one string."""
    kept = {key: value for key, value in effective(flat).items() if key != SEED and key not in without}
    return json.dumps(kept, sort_keys=True)
