"""Which runs of a ledger answer which row of a space's table."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from analysis.ledger import RunRow
from cluster.plan.signature import signatures
from cse_train.config import RunConfig, parse_run
from cse_train.fields import ConfigError, Scalar
from search_spaces.cells import Cell, Key, ResolvedSpace, full_key


@dataclass(frozen=True)
class Answer:
    """A run and the row of the table that it answers."""

    key: Key
    row: str
    """The key as JSON."""
    run: RunRow


def answers(resolved: ResolvedSpace, runs: Iterable[RunRow], seeds: Sequence[int] | None = None) -> list[Answer]:
    """Runs whose configuration is one of the space's cells, in any state, one per (row, seed).

    Runs by another VERSION or other rules are left out; where a row has runs on several data sets, the newest counts,
    finished runs first.
    """
    cells_of = _cells_by_settings(resolved)
    groups = by_settings(run for run in runs if seeds is None or run.seed in seeds)
    found: list[Answer] = []
    for settings, alike in groups.items():
        cells = cells_of(settings, alike[0].config)
        keys = [full_key(resolved, cell.key) for cell in cells]
        rows = [(key, json.dumps(key, sort_keys=True)) for key in keys]
        answering = current(alike, cells[0].run(0)) if cells else ()
        found += [Answer(key, row, run) for run in answering for key, row in rows]
    return _of_newest_inputs(sorted(found, key=_age))


def _age(answer: Answer) -> tuple[bool, float]:
    return answer.run.state == "done", answer.run.updated


def _cells_by_settings(resolved: ResolvedSpace) -> Callable[[str, Key], Sequence[Cell]]:
    """(settings but the seed, configuration) -> the cells that have these."""
    if resolved.size() is None:
        return lambda settings, config: _sampled(resolved, settings, config)
    cells: dict[str, list[Cell]] = {}
    for cell in resolved.cells():
        cells.setdefault(_settings(cell.flat), []).append(cell)
    return lambda settings, config: cells.get(settings, [])


def _sampled(resolved: ResolvedSpace, settings: str, config: Key) -> list[Cell]:
    """The cell of a run in a space without a finite list of cells."""
    key = resolved.key_of(config)
    if not resolved.contains(key):
        return []
    cell = resolved.cell(key)
    return [cell] if _settings(cell.flat) == settings else []


def _settings(flat: Key) -> str:
    return settings_key(flat, leave_out=SEED)


def _of_newest_inputs(oldest_first: Sequence[Answer]) -> list[Answer]:
    newest = {answer.row: answer.run.identity for answer in oldest_first}
    kept = {(a.row, a.run.seed): a for a in oldest_first if a.run.identity == newest[a.row]}
    return list(kept.values())


class Finished(Protocol):
    """What is read of `analysis.ledger.ledger.RunRow`."""

    @property
    def signature(self) -> str: ...
    @property
    def config(self) -> Mapping[str, Any]: ...
    @property
    def identity(self) -> Mapping[str, str | int]: ...


SEED = "train.seed"
Row = TypeVar("Row", bound=Finished)


def settings_key(flat: Mapping[str, Scalar], leave_out: str = "") -> str:
    """Settings as one string; `leave_out` names the one that does not count."""
    return json.dumps({key: value for key, value in flat.items() if key != leave_out}, sort_keys=True)


def by_settings(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Settings but the seed, as `settings_key` has them -> the rows with these."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(settings_key(row.config, leave_out=SEED), []).append(row)
    return groups


def current(alike: Iterable[Row], run: RunConfig | None = None) -> list[Row]:
    """Of rows whose settings differ in the seed at most, those that today's code would give the signature they have.

    `run`: these settings, where they were parsed before.
    """
    groups: dict[tuple[tuple[str, str | int], ...], list[Row]] = {}
    for row in alike:
        groups.setdefault(tuple(sorted(row.identity.items())), []).append(row)
    return [row for same in groups.values() for row in _signed_so(same, run or parse_run(same[0].config))]


def _signed_so(same: Sequence[Row], run: RunConfig) -> list[Row]:
    seeds = [int(row.config.get(SEED, 0)) for row in same]
    names = signatures(run, same[0].identity, set(seeds))
    return [row for row, seed in zip(same, seeds, strict=True) if names[seed] == row.signature]


def done_settings(rows: Iterable[Row], wanted: Iterable[Mapping[str, Scalar]]) -> set[str]:
    """Which settings, seed included, one of the finished `rows` has, on whatever data it was."""
    asked = {settings_key(flat) for flat in wanted}
    found: dict[str, list[Row]] = {}
    for row in rows:
        key = settings_key(row.config)
        if key in asked:
            found.setdefault(key, []).append(row)
    return {key for key, same in found.items() if current(same)}


Sign = Callable[[RunConfig], str]
FINAL = ("done", "stopped", "failed")


class LedgerRow(Protocol):
    """What is read of `analysis.ledger.ledger.RunRow`."""

    @property
    def signature(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def config(self) -> Mapping[str, Any]: ...
    @property
    def best(self) -> float | None: ...
    @property
    def best_examples(self) -> int | None: ...
    @property
    def examples(self) -> int | None: ...
    @property
    def seconds(self) -> float | None: ...
    @property
    def live(self) -> bool: ...


@dataclass(frozen=True)
class Known:
    """One (cell, seed) and how it stands."""

    cell: Cell
    seed: int
    state: str
    """A ledger state; a number that is not finite counts as `failed`."""
    value: float | None = None
    """Best dev score so far."""
    examples: int | None = None
    """Training examples behind `value`."""
    live: bool = False
    """Held right now by a driver that is alive."""

    @property
    def final(self) -> bool:
        """Whether this run will not change any more by itself."""
        return self.state in FINAL


def known(cell: Cell, seed: int, state: str, value: float | None, examples: int | None = None) -> Known:
    """An observation; NaN and infinite scores are failures."""
    finite = value is not None and math.isfinite(value)
    if state in ("done", "stopped") and not finite:
        return Known(cell, seed, "failed")
    return Known(cell, seed, state, value if finite else None, examples)


class Memory:
    """Recognises the rows of a space; a row that was looked at once is not computed again."""

    def __init__(self, resolved: ResolvedSpace, sign: Sign) -> None:
        self._resolved, self._sign = resolved, sign
        self._methods = set(resolved.space.methods())
        self._cells: dict[str, Cell | None] = {}

    def known(self, rows: Iterable[LedgerRow]) -> list[Known]:
        """The rows that are runs of this space, in the rows' order."""
        found = []
        for row in rows:
            if row.signature not in self._cells:
                self._cells[row.signature] = self._cell_of(row)
            cell = self._cells[row.signature]
            if cell:
                seen = known(cell, row.seed, row.state, row.best, row.examples)
                found.append(Known(cell, seen.seed, seen.state, seen.value, seen.examples, row.live))
        return found

    def _cell_of(self, row: LedgerRow) -> Cell | None:
        """The cell whose run with the row's seed has the row's signature."""
        if row.method not in self._methods:
            return None
        key = self._resolved.key_of({"method": row.method, **row.config})
        if not self._resolved.contains(key):
            return None
        cell = self._resolved.cell(key)
        try:
            return cell if self._sign(cell.run(row.seed)) == row.signature else None
        except ConfigError:
            return None
