"""Labels of rows for figures and lists: short, and different for different rows."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any

from analysis.tables.spec import NO_SETTING, Key, SettingDifference, plain
from cse_train.results import Settings

Keys = Sequence[Key]
MINUTE, HOUR = 60, 3600


def label(key: Key, axes: Sequence[str] | None = None, seed: int | None = None) -> str:
    """Returns the label of a row, or of one of its runs: `dup_rate=0.32 momentum=off seed 1`; `all` for no axes.

    `axes` are those to name, by default all of the key.
    """
    names = key if axes is None else axes
    words = [f"{short(axis)}={axis_text(key.get(axis))}" for axis in names]
    return " ".join(words if seed is None else [*words, f"seed {seed}"]) or "all"


def short(axis: str) -> str:
    """Returns the last part of an axis' name: `dup_rate` of `method.dup_rate`."""
    return axis.rpartition(".")[2]


def varying(keys: Keys, axes: Sequence[str]) -> list[str]:
    """Returns the axes with more than one value."""
    return [axes[place] for place in _find_varying(_rows(keys, axes))]


def choose_axes(keys: Keys, axes: Sequence[str], *, searched: bool = False) -> list[str]:
    """Returns the axes that name the keys: as few as distinguish all keys. Of two axes that vary together the first
    stays.

    `searched` says that a sampler drew the keys. One drawn rate distinguishes all cells by chance, so then every axis
    with two values stays.
    """
    rows = _rows(keys, axes)
    places = _find_varying(rows)
    for place in [] if searched else places[::-1]:  # from the last axis, so that the first of equals stays
        fewer = [other_place for other_place in places if other_place != place]
        if len({tuple(row[other_place] for other_place in fewer) for row in rows}) == len(rows):
            places = fewer
    return [axes[place] for place in places]


def differing(rows: Sequence[tuple[Key, Key]], axes: Iterable[str]) -> list[SettingDifference]:
    """Returns the settings other than `axes` in which rows, each a key and its settings, differ; common ones first."""
    axis_names = set(axes)
    differences = []
    for name in dict.fromkeys(name for _, settings in rows for name in settings if name not in axis_names):
        row_values = [settings.get(name, NO_SETTING) for _, settings in rows]
        if all(type(value) is type(row_values[0]) and value == row_values[0] for value in row_values):
            continue  # most settings of a large table
        values: dict[str, list[Key]] = {}
        for key, settings in rows:
            value = setting_text(plain(settings[name])) if name in settings else NO_SETTING
            values.setdefault(value, []).append(key)
        if len(values) > 1:
            differences.append(SettingDifference(name, values))
    alone = {difference.name: len(difference.values.get(NO_SETTING, ())) for difference in differences}
    return sorted(differences, key=lambda difference: (alone[difference.name] > 0, alone[difference.name]))


SETTINGS_NAMED = 6
"""Number of settings that a line names; others are counted."""
ROWS_SHOWN = 3
"""Number of rows that a line names for each value."""


def differing_line(differences: Sequence[SettingDifference], names: Callable[[Key], str], what: str = "Rows") -> str:
    """Returns `Rows also differ in: method.pooler (cls: simcse; mean: mine)`; empty where only the axes differ.

    Options that some methods have, always at one value, are only counted: they distinguish the methods and nothing
    else.
    """
    parts = []
    for difference in (each for each in differences if each.is_varied):
        values = [f"{value}: {some([*map(names, keys)], ROWS_SHOWN)}" for value, keys in difference.values.items()]
        parts.append(f"{difference.name} ({'; '.join(values)})")
    constant_count = len(differences) - len(parts)
    counted = [f"{number_of(constant_count, 'option')} that not all have"] if constant_count else []
    names_text = [some(parts, SETTINGS_NAMED)] if parts else []
    return f"{what} also differ in: {'; '.join([*names_text, *counted])}" if names_text or counted else ""


Row = tuple[Any, ...]


def _rows(keys: Keys, axes: Sequence[str]) -> set[Row]:
    """Returns the different keys, each as its values of the axes: a hundred thousand runs have far fewer."""
    return {tuple(plain(key.get(axis)) for axis in axes) for key in keys}


def _find_varying(rows: Set[Row]) -> list[int]:
    """Returns the positions at which rows differ."""
    return [place for place, values in enumerate(zip(*rows, strict=True)) if len(set(values)) > 1]


def some(names: Sequence[str], limit: int, separator: str = ", ") -> str:
    """Returns the first names, and how many more there are."""
    rest = f" and {len(names) - limit} more" if len(names) > limit else ""
    return separator.join(names[:limit]) + rest


def number_of(count: int, noun: str) -> str:
    """Returns a count with its noun: `1 run`, `3 runs`."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def duration(seconds: float) -> str:
    """Returns a duration as text in the largest unit that fits: seconds, minutes or hours."""
    if seconds < MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / MINUTE:.0f} min" if seconds < HOUR else f"{seconds / HOUR:.1f} h"


def setting_text(value: object) -> str:
    """Returns a setting's value as YAML writes it: null stays null and does not become `off`."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return axis_text(value)


def axis_text(value: object) -> str:
    """Returns an axis value as a reader writes it: `off` for None, `yes`/`no`, numbers without trailing zeros."""
    if value is None:
        return "off"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


DATA_DIGITS = 8
"""Number of hexadecimal digits of a content hash in messages."""
LENGTH = "examples"
"""Input that follows from the corpus: the number of its examples."""

Run = tuple[str, Settings, int, Settings]
"""Signature, cell, seed and identity of a run."""


def distinguish_runs(runs: Iterable[Run]) -> dict[str, dict[str, str]]:
    """Returns signature -> {input: beginning of its hash}, for inputs in which runs of one cell differ; {} where none
    do.

    Runs with equal cell, seed and inputs differ in their code; `run` is then the beginning of the signature.
    """
    rows = list(runs)
    # Equal cells are mostly one object, and so are equal inputs: each is looked into once.
    cells = {key: repr(sorted(cell.items())) for key, cell in {id(cell): cell for _, cell, _, _ in rows}.items()}
    inputs_by_id = {id(inputs): inputs for *_, inputs in rows}
    whole = {
        key: frozenset((part, str(value)) for part, value in inputs.items()) for key, inputs in inputs_by_id.items()
    }
    if len(set(whole.values())) == 1 and len({(cells[id(cell)], seed) for _, cell, seed, _ in rows}) == len(rows):
        return {}
    parts = sorted({part for inputs in inputs_by_id.values() for part in inputs} - {LENGTH})
    values: dict[tuple[str, str], set[str]] = defaultdict(set)
    for text, key in {(cells[id(cell)], id(inputs)) for _, cell, _, inputs in rows}:
        for part in parts:
            values[part, text].add(str(inputs_by_id[key].get(part, "")))
    differing_parts = {part for (part, _), several in values.items() if len(several) > 1}
    ordered_parts = [part for part in parts if part in differing_parts]
    distinct_runs = {(cells[id(cell)], seed, whole[id(inputs)], name) for name, cell, seed, inputs in rows}
    other_code = len({run[:-1] for run in distinct_runs}) < len(distinct_runs)
    if not ordered_parts and not other_code:
        return {}
    return {
        name: {part: str(inputs.get(part, ""))[:DATA_DIGITS] for part in ordered_parts}
        | ({"run": name[:DATA_DIGITS]} if other_code else {})
        for name, _, _, inputs in rows
    }
