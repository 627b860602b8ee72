"""Names cells of a space for users, and finds a cell by its label or by some of its axis values."""

import itertools
import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from cse_train.fields import ConfigError, Scalar, nearest
from search_spaces import keys
from search_spaces.cells import PART, Cell, ResolvedSpace
from search_spaces.strict_yaml import parse_yaml

VALUES_SHOWN = 8
"""Maximum number of cells or values that an error line lists."""


def choose(resolved: ResolvedSpace, wanted: Sequence[str], cells: Sequence[Cell], before: str = "--cell ") -> Cell:
    """Returns the one of `cells` that `wanted` names by its label or by `axis=value` pairs, also joined by commas.

    An axis may be given by its last part where that is not ambiguous. `before` is what a user writes before a cell.
    Raises ConfigError for an unknown axis, for no matching cell, and for several.
    """
    text = ", ".join(wanted)
    labelled = [cell for cell in cells if cell.label == text]
    if labelled or (not wanted and len(cells) == 1):
        return (labelled or list(cells))[0]
    if not wanted:
        raise ConfigError(
            [f"which cell: cell=none of {len(cells)} of {resolved.space.id}; give {_some(cells, before)}"]
        )
    pairs = _pairs(resolved, wanted)
    # True is no 1, although Python says that they are equal.
    typed = {axis: (value, isinstance(value, bool)) for axis, value in pairs.items()}
    fitting = [
        cell
        for cell in cells
        if typed == {axis: (cell.key.get(axis), isinstance(cell.key.get(axis), bool)) for axis in pairs}
    ]
    exact = [cell for cell in fitting if cell.key.keys() == pairs.keys()]
    if len(exact or fitting) == 1:
        return (exact or fitting)[0]
    if fitting:
        more = dict.fromkeys(axis for cell in fitting for axis in cell.key if axis not in pairs)
        advice = f"add {' and '.join(more)}" if more else "give a label"
        line = f"ambiguous cell: cell={text} is {len(fitting)} cells; {advice}, as in {_some(fitting, before)}"
    elif len(pairs) == 1:
        (axis,) = pairs
        values = dict.fromkeys(_write(cell.key.get(axis)) for cell in cells)
        line = f"no such cell: cell={text}; {axis} is one of {_list_first(list(values))}"
    else:
        line = f"no such cell: cell={text}; give one such as {_some(cells, before)}"
    raise ConfigError([line])


def cell_name(key: Mapping[str, Scalar], seed: int | None = None) -> str:
    """Returns a short name of a cell, or of its run with a seed: `dup_rate=0.32 seed 1`."""
    values = (f"{value:.6g}" if isinstance(value, float) else str(value) for value in key.values())
    settings = [f"{axis.rpartition('.')[2]}={value}" for axis, value in zip(key, values, strict=True)]
    return " ".join(settings if seed is None else [*settings, f"seed {seed}"])


def cell_argument(cell: Cell) -> str:
    """Returns a cell as an argument of `--cell`: its label, or its axis values."""
    return cell.label or ",".join(itertools.starmap(setting, cell.key.items()))


def shell_words(arguments: Iterable[str], before: str) -> list[str]:
    """Returns arguments quoted for a shell behind `before`.

    Before `S3:` this gives `S3:0.1` and `'S3:Fixed 0.1'`, before `--cell ` it gives `--cell 0.1`.
    """
    option, space, start = before.rpartition(" ")
    return [option + space + shlex.quote(start + argument) for argument in arguments]


def setting(key: str, value: Scalar) -> str:
    """Returns `key=value` in the form that `--set` and `--cell` read back as the same value."""
    return f"{key}={_write(value)}"


def _write(value: Scalar) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if not isinstance(value, str):
        return str(value)
    try:
        plain = parse_yaml(f"value: {value}", "value")["value"] == value
    except ConfigError:
        plain = False
    return value if plain else json.dumps(value)


def _pairs(resolved: ResolvedSpace, wanted: Sequence[str]) -> dict[str, Scalar]:
    split = [pair.strip() for words in wanted for pair in re.split(r",(?=\s*[\w.]+=)", words)]
    wrong = [pair for pair in split if "=" not in pair.strip("=")]
    if wrong:
        labels = [cell.label for cell in resolved.space.cells]
        hint = nearest(wrong[0], labels) if labels else "give axis=value"
        raise ConfigError([f"no such cell: cell={wrong[0]}; {hint}"])
    values = {}
    for name, text in (pair.split("=", 1) for pair in split):
        axis = _axis(resolved, name.strip())
        value = parse_yaml(f"value: {text}", f"--cell {name}")["value"]
        values[axis] = value if axis == PART else keys.normal(axis, value, resolved.space.methods()[0])
    return values


def _axis(resolved: ResolvedSpace, name: str) -> str:
    axes = [*resolved.space.axis_names, *([PART] if resolved.space.set_for else [])]
    ends = [axis for axis in axes if name in (axis, axis.rpartition(".")[2])]
    if name in axes or len(ends) == 1:
        return name if name in axes else ends[0]
    if ends:
        raise ConfigError([f"ambiguous axis: cell={name} may be {' or '.join(ends)}; give it in full"])
    raise ConfigError([f"unknown axis: cell={name}; {nearest(name, axes)}"])


def _some(cells: Sequence[Cell], before: str) -> str:
    words = shell_words(map(cell_argument, cells), before)
    return _list_first(words, " or ") if cells else f"{before}(none has run yet)"


def _list_first(words: Sequence[str], between: str = ", ") -> str:
    return between.join([*words[:VALUES_SHOWN], *(["..."] if len(words) > VALUES_SHOWN else [])])
