"""What a ledger knows of a space: rows whose signature is that of one of the space's runs."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from cluster.cells import Cell, ResolvedSpace
from cse_train.config import RunConfig
from cse_train.fields import ConfigError

Sign = Callable[[RunConfig], str]
FINAL = ("done", "stopped", "failed")


class Row(Protocol):
    """What is read of `analysis.ledger.RunRow`."""

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

    def known(self, rows: Iterable[Row]) -> list[Known]:
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

    def _cell_of(self, row: Row) -> Cell | None:
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
