"""Cells of a sweep whose runs another tool made: their names, and the choice of one by name."""

import contextlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.answers.imported import IMPORTED
from analysis.answers.lookup import space_of_sweep
from analysis.ledger import Ledger, RunRow, SweepRow
from analysis.run_state import RunState
from analysis.tables.labels import setting_text, short, some, varying
from analysis.tables.spec import Key
from cse_train.fields import ConfigError, Scalar, nearest
from search_spaces.cell_names import setting, shell_words

NUMBERED_FROM = 1_000_000
"""Offset added to a second model's seeds where an import numbered them, as equal numbers are no common seed."""
SEED_NAMES = ("train.seed", "seed")
CELLS_SHOWN = 8


@dataclass(frozen=True)
class ImportedCell:
    """Configuration of another tool with its finished runs."""

    key: Key
    """Key of the paper's row in a paper's table; else the settings in which the sweep's cells differ."""
    runs: tuple[RunRow, ...]
    """Finished runs of the cell, by seed."""
    label: str = ""
    """Label of the row in a paper's table; empty for others."""

    @property
    def argument(self) -> str:
        """Cell in the form that `--cell` takes."""
        return self.label or ",".join(itertools.starmap(setting, self.key.items())) or "all"


def is_numbered(run: RunRow) -> bool:
    """Returns whether a run's seed is a number that the import assigned, since its tool records no seed."""
    return IMPORTED in run.identity and not any(name in run.config for name in SEED_NAMES)


def read_cells(sweep: SweepRow, ledger: Ledger) -> list[ImportedCell]:
    """Returns the cells with finished runs, in the order of their first runs' signatures."""
    finished = {run.signature: run for run in ledger.runs(sweep=sweep.id, states=[RunState.DONE])}
    by_cell: dict[str, tuple[Mapping[str, Scalar], list[RunRow]]] = {}
    for link in ledger.cells(sweep.id):
        if link.signature in finished:
            row = json.dumps(link.cell, sort_keys=True)
            by_cell.setdefault(row, (link.cell, []))[1].append(finished[link.signature])
    space = space_of_sweep(sweep) if sweep.spec.file else None
    labels = {repr(sorted(cell.key.items())): cell.label or "" for cell in space.rows()} if space else {}
    keys = [cell for cell, _ in by_cell.values()]
    axes = (
        list(dict.fromkeys(itertools.chain(*keys)))
        if space
        else varying(keys, list(dict.fromkeys(itertools.chain(*keys))))
    )
    return [
        ImportedCell(
            {axis: cell[axis] for axis in axes if axis in cell},
            tuple(sorted(runs, key=lambda run: run.seed)),
            labels.get(repr(sorted(cell.items())), ""),
        )
        for cell, runs in by_cell.values()
    ]


def choose_cell(sweep: SweepRow, ledger: Ledger, arguments: Sequence[str], prefix: str) -> ImportedCell:
    """Returns the cell that a label, or `name=value` pairs with commas, mean. Raises ConfigError for none and for
    several.

    A setting may be named by its last part. `prefix` is what a person writes before a cell.
    """
    cells, argument = read_cells(sweep, ledger), ", ".join(arguments)
    if not cells:
        raise ConfigError([f"nothing finished: sweep={sweep.id} has no done run; cse import takes some over"])
    if len(cells) == 1 and argument in ("", cells[0].argument):
        return cells[0]
    labelled = [cell for cell in cells if cell.label and plain_name(cell.label) == plain_name(argument)]
    if labelled:
        return labelled[0]
    examples = _list_first(cells, prefix)
    if not arguments:
        raise ConfigError([f"which cell: cell=none of {len(cells)} of {sweep.id}; give {examples}"])
    pairs = [part.partition("=") for words in arguments for part in re.split(r",(?=[^,=]+=)", words)]
    names = dict.fromkeys(itertools.chain(*(cell.key for cell in cells)))
    for name, equals, _ in pairs:
        if not equals:
            raise ConfigError([f"no such cell: cell={argument}; give one such as {examples}"])
        if not any(name.strip() in (axis, short(axis)) for axis in names):
            raise ConfigError([f"unknown setting: cell={name.strip()}; {nearest(name.strip(), names)}"])
    fitting = [
        cell for cell in cells if all(_has_setting(cell.key, name.strip(), text.strip()) for name, _, text in pairs)
    ]
    if len(fitting) != 1:
        fault = "no such cell" if not fitting else "ambiguous cell"
        raise ConfigError([f"{fault}: cell={argument}; give one such as {_list_first(fitting or cells, prefix)}"])
    return fitting[0]


def _list_first(cells: Sequence[ImportedCell], prefix: str) -> str:
    return some(shell_words((cell.argument for cell in cells), prefix), CELLS_SHOWN, " or ")


def plain_name(label: str) -> str:
    """Returns letters and digits in lower case: `SimCSE-BERT base` and `simcse-bert-base` are one name."""
    return "".join(letter for letter in label.lower() if letter.isalnum())


def _has_setting(key: Key, name: str, text: str) -> bool:
    values = [value for axis, value in key.items() if name in (axis, short(axis))]
    return any(_matches_value(value, text.strip("\"'")) for value in values)


def _matches_value(value: Scalar, text: str) -> bool:
    with contextlib.suppress(ValueError):
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(text) == value
    return text in (str(value), setting_text(value))
