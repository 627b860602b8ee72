"""Pairs of sentences with a rating each, in a file of the user's own."""

import math
from typing import Any

import numpy as np

from cse_train.evaluate.correlation import constant
from cse_train.evaluate.user_sets.kinds import open_user_file
from cse_train.fields import ConfigError
from cse_train.text.corpora.tables import text_of
from cse_train.user_files import UserFile

LEAST_PAIRS = 3
"""Pairs that can be ranked in more than one way or its reverse."""
Rated = tuple[str, str, float]


def read_ratings(file: UserFile) -> list[Rated]:
    """The pairs with their ratings, on whatever scale: ranks alone count.

    ConfigError, one line: a set of another kind, a row without a text or a number, ratings that rank nothing.
    """
    open_file = open_user_file(file)
    if open_file.kind != "ratings":
        line = f"no ratings: {file.name} has {open_file.kind}, and rated pairs are wanted"
        raise ConfigError([f"{line}; give columns: {{sentence1: NAME, sentence2: NAME, rating: NAME}}"])
    place, names = open_file.table.place, [open_file.columns[name] for name in ("sentence1", "sentence2", "rating")]
    rated = [
        (
            text_of(left, place, where, names[0]),
            text_of(right, place, where, names[1]),
            number_of(rating, place, where, names[2]),
        )
        for where, (left, right, rating) in open_file.table.read(names)
    ]
    if len(rated) < LEAST_PAIRS:
        raise ConfigError([f"too few pairs: {place} has {len(rated)}; give at least {LEAST_PAIRS}"])
    if constant(np.array([rating for _, _, rating in rated])):
        line = f"constant ratings: {place} has {len(rated)} equal ones in {names[2]}"
        raise ConfigError([f"{line}, which rank nothing; name another column or give another file"])
    if all(left == right for left, right, _ in rated):
        line = f"equal texts: {names[0]} and {names[1]} of {place} are the same in all {len(rated)} pairs"
        raise ConfigError([f"{line}, and their cosines rank nothing; name another column or give another file"])
    return rated


def number_of(value: Any, place: str, where: str, column: str) -> float:
    """A finite number. ConfigError where it is absent or none."""
    if value is None or value == "":
        raise ConfigError([f"missing number: {place}, {where}: {column} is empty; give a number or remove the row"])
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or isinstance(value, bool):
        shown = str(value)[:40]
        raise ConfigError([f"not a number: {place}, {where}: {column}={shown}; correct it, or name another column"])
    return number
