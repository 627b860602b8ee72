"""Reader of a user's set of rated sentence pairs."""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from cse_train.evaluate.correlation import constant
from cse_train.evaluate.user_sets.kinds import open_user_file
from cse_train.fields import ConfigError
from cse_train.text.tables import text_of
from cse_train.user_files import UserFile

LEAST_PAIRS = 3
"""Least pairs of a set: fewer can only be ranked in one way or its reverse."""
MOST_CLASSES = 3
"""Most distinct whole numbers that may be classes of pairs: NLI has two or three, numbered differently by each set."""
NO_CLASS = -1
"""Label in Hugging Face data sets of a pair on whose class the annotators disagree."""
CLASS_NAMES = re.compile(r"label|gold|class|judge?ment|entail|target|verdict")
"""Column names that suggest classes in place of ratings."""
RATING_NAMES = re.compile(r"rating|similar|related|duplicate|paraphrase")
"""Column names that suggest ratings of similarity."""
DISTANCE_NAMES = re.compile(r"distan|dissimilar|unrelated|diverge|differen")
"""Column names that suggest distances: the higher the number, the farther apart are the texts."""
Rated = tuple[str, str, float]
"""Left text, right text and rating of a pair."""


def read_ratings(file: UserFile) -> list[Rated]:
    """Reads pairs with their ratings, on whatever scale: only ranks count.

    ConfigError, one line: a set of another kind, a row without a text or a number, ratings that rank nothing, and
    numbers that may be classes or distances, unless `kind: ratings` states that higher means more similar.
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
    if file.kind is None and (doubt := _doubt([rating for _, _, rating in rated], names)):
        say = "give `kind: ratings` if texts are nearer where it is higher, or a rating by columns: {rating: NAME}"
        raise ConfigError([f"{doubt} of {place}; {say}"])
    return rated


def _doubt(values: Sequence[float], names: Sequence[str]) -> str:
    """Returns why numbers may be no ratings, by their values and the columns' names; empty where they seem to be some.

    Classes are whole numbers, but 0 is entailment in some sets of NLI and contradiction in others.
    """
    left, right, column = (name.lower() for name in names)
    distinct = sorted(set(values))
    shown = ", ".join(f"{value:g}" for value in distinct[:5]) + (" ..." if len(distinct) > 5 else "")
    if DISTANCE_NAMES.search(column):
        return f"distances or ratings: {names[2]}={shown}"
    few, rated = len(distinct) <= MOST_CLASSES, RATING_NAMES.search(column)
    named = not rated and (few or CLASS_NAMES.search(column))
    coded = all(value.is_integer() for value in distinct) and (named or distinct[0] == NO_CLASS)
    inferred = few and ("premise" in left or "hypothes" in right)
    return f"classes or ratings: {names[2]}={shown}" if coded or inferred else ""


def number_of(value: Any, place: str, where: str, column: str) -> float:
    """Returns a table's value as a finite number. ConfigError where it is absent or no such number."""
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
