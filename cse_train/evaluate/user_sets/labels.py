"""Reader of a user's set of labelled sentences."""

from collections import Counter

from cse_train.evaluate.user_sets.kinds import open_user_file
from cse_train.fields import ConfigError
from cse_train.text.tables import text_of
from cse_train.user_files import UserFile

LEAST_LABELLED = 12
"""Least sentences of each class: enough for ten folds, and for ten inner folds within nine tenths of them."""


def read_labels(file: UserFile) -> list[tuple[str, str]]:
    """Reads sentences with their classes. ConfigError: a row without text or class, too few classes or rows."""
    open_file = open_user_file(file)
    place, names = open_file.table.place, [open_file.columns[name] for name in ("text", "label")]
    labelled: list[tuple[str, str]] = []
    for where, (text, label) in open_file.table.read(names):
        sentence = text_of(text, place, where, names[0])
        if isinstance(label, float) and label.is_integer():
            label = int(label)  # readers of tables make floats of whole numbers where a column has an empty field
        if not isinstance(label, str | int | bool) or str(label).strip() == "":
            line = f"missing label: {place}, {where}: {names[1]} is no class; give one or remove the row"
            raise ConfigError([line])
        labelled.append((sentence, str(label).strip()))
    counts = Counter(label for _, label in labelled)
    if len(counts) < 2:
        raise ConfigError([f"constant labels: {place} has {len(counts)} class in {names[1]}; give two at least"])
    label, least = min(counts.items(), key=lambda item: item[1])
    if least < LEAST_LABELLED:
        message = f"too few sentences: {place} has {least} of {names[1]}={label[:40]}"
        raise ConfigError([f"{message}, and folds need {LEAST_LABELLED}; add some, or leave the class out"])
    return labelled
