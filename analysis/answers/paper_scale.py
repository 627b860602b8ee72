"""Describes the scale of a table's runs, and the settings in which they are not the paper's."""

import re
from collections.abc import Mapping, Sequence

from cse_train.fields import ConfigError, Scalar
from search_spaces.cell_names import setting
from search_spaces.cells import PAPER_PROFILE, Cell, ResolvedSpace, resolve, setups
from search_spaces.user_data import ENCODER

Unlike = Mapping[str, tuple[Sequence[Scalar], Sequence[Scalar]]]
"""Setting -> values of the runs, and the paper's values in their place."""
EXAMPLES, EVALUATIONS, CORPUS = "train.examples", "train.evaluations", "train.corpus"
LAYERS = re.compile(r"(?<![a-z0-9])l-?(\d+)(?=[-_])", re.IGNORECASE)
"""Pattern of the number of layers in an encoder's name: `words-l2-h128`, `google/bert_uncased_L-4_H-512_A-8`."""
OTHERS_NAMED = 8
"""Number of settings that a line names without their values."""


def unlike_paper(resolved: ResolvedSpace) -> Unlike:
    """Returns the settings in which some cell's run is not the one of profile `paper`; empty at the paper's own scale.

    The text behind `corpus: file` and an encoder behind a path are not compared by content, only by name.
    """
    plain = resolved.profile.name == PAPER_PROFILE and not resolved.overrides
    if plain or resolved.size() is None:
        return {} if plain else {"profile": ([resolved.profile.name], [PAPER_PROFILE])}
    twins = {cell.id: cell for cell in resolve(resolved.space, PAPER_PROFILE).cells()}
    unlike: dict[str, tuple[dict[Scalar, None], dict[Scalar, None]]] = {}
    for cell in resolved.cells():
        for name, value, paper_value in _compare(cell, twins[cell.id]) if cell.id in twins else ():
            run_values, paper_values = unlike.setdefault(name, ({}, {}))
            run_values[value], paper_values[paper_value] = None, None
    return {name: (list(run_values), list(paper_values)) for name, (run_values, paper_values) in unlike.items()}


def _compare(cell: Cell, twin: Cell) -> list[tuple[str, Scalar, Scalar]]:
    try:
        flat, paper = cell.flat, twin.flat
    except ConfigError:
        return [("settings", None, None)]
    return [(name, value, paper.get(name)) for name, value in flat.items() if value != paper.get(name)]


def tell_unlike(unlike: Unlike) -> str:
    """Returns a line such as `2-layer encoder instead of bert-base-uncased, 12,800 examples instead of 1,000,000`."""
    replaced, other_names = [], []
    for name, (run_values, paper_values) in unlike.items():
        if name in (ENCODER, EXAMPLES) and len(run_values) == len(paper_values) == 1:
            words = f"{_number_text(run_values[0])} examples"
            if name == ENCODER:
                layers = LAYERS.search(str(run_values[0]))
                words = f"{layers[1]}-layer encoder" if layers else str(run_values[0])
            replaced.append(f"{words} instead of {_number_text(paper_values[0])}")
        else:
            other_names.append(name.rpartition(".")[2])
    names_text = ", ".join(other_names[:OTHERS_NAMED]) + (" and more" if len(other_names) > OTHERS_NAMED else "")
    return "; ".join(part for part in (", ".join(replaced), f"other {names_text}" if names_text else "") if part)


def _number_text(value: Scalar) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def name_scale(resolved: ResolvedSpace) -> str:
    """Returns the scale in words: `small, 4 layers, 25,600 sentences`, and the other overridden settings."""
    flats = setups(resolved)
    values = {name: list(dict.fromkeys(flat[name] for flat in flats)) for name in (ENCODER, EXAMPLES, CORPUS)}
    words, overrides = [resolved.profile.name], dict(resolved.overrides)
    if len(values[ENCODER]) == 1:
        # The number of layers, if nothing else differs from the profile's own encoder.
        encoder, layers = str(values[ENCODER][0]), LAYERS.search(str(values[ENCODER][0]))
        same_family = LAYERS.sub("", encoder) == LAYERS.sub("", str(resolved.profile.train.get(ENCODER)))
        words.append(f"{layers[1]} layer{'s' * (layers[1] != '1')}" if layers and same_family else encoder)
        overrides.pop(ENCODER, None)
    if len(values[EXAMPLES]) == 1:
        noun = "sentences" if all(str(corpus).startswith(("wiki", "file")) for corpus in values[CORPUS]) else "examples"
        words.append(f"{_number_text(values[EXAMPLES][0])} {noun}")
        overrides.pop(EXAMPLES, None)
    if EVALUATIONS in overrides:
        words.append(f"{overrides.pop(EVALUATIONS)} evaluations")
    return ", ".join([*words, *(setting(key, value) for key, value in sorted(overrides.items()))])
