"""Names of rows for figures and lists: short, and different for different rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.tables.spec import plain

Keys = Sequence[Mapping[str, Any]]


def label(key: Mapping[str, Any], axes: Sequence[str] | None = None, seed: int | None = None) -> str:
    """A row, or one of its runs, in a reader's words: `dup_rate=0.32 momentum=off seed 1`; `all` for no words.

    `axes`: those to name, by default all of the key.
    """
    names = key if axes is None else axes
    words = [f"{axis.rpartition('.')[2]}={axis_text(key.get(axis))}" for axis in names]
    return " ".join(words if seed is None else [*words, f"seed {seed}"]) or "all"


def varying(keys: Keys, axes: Sequence[str]) -> list[str]:
    """The axes with more than one value."""
    return [axis for axis in axes if len({plain(key.get(axis)) for key in keys}) > 1]


def telling(keys: Keys, axes: Sequence[str], *, searched: bool = False) -> list[str]:
    """The axes that name the keys: as many as tell them apart; of two that say the same the first stays.

    `searched`: a sampler drew the keys. One drawn rate tells all cells apart by chance, so there every axis with two
    values stays.
    """
    kept = varying(keys, axes)
    if searched:
        return kept
    whole = len(_distinct(keys, kept))
    for axis in reversed(kept[:]):
        without = [other for other in kept if other != axis]
        if len(_distinct(keys, without)) == whole:
            kept = without
    return kept


def _distinct(keys: Keys, axes: Sequence[str]) -> set[tuple[Any, ...]]:
    return {tuple(plain(key.get(axis)) for axis in axes) for key in keys}


def shortened(text: str, most: int = 48) -> str:
    """Text that fits beside a figure; the middle of a longer one is left out."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-(most // 2 - 1) :]}"


def some(names: Sequence[str], most: int, between: str = ", ") -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return between.join(names[:most]) + more


def axis_text(value: object) -> str:
    """An axis value as a reader writes it: `off` for None, `yes`/`no`, numbers without a needless tail."""
    if value is None:
        return "off"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
