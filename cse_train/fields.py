"""Configuration fields as data: their types and ranges, and every problem of a set of values at once."""

import dataclasses
import difflib
import functools
import math
import re
import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from cse_train.results import Json as Json
from cse_train.results import Scalar as Scalar
from cse_train.results import Settings as Settings

LONG_NAME, LONG_LIST = 200, 10_000
"""Limits within which `nearest` compares: characters of the name, and number of valid words; time grows with both."""
NEAREST = 3
"""Largest number of close words that a hint names."""
NAMES_LISTED = 24
"""Largest number of valid words that a hint lists in full; of more it names the nearest."""
CLOSE = 0.15
"""Difference in similarity, of 0 to 1, within which a hint names further words beside the closest one."""


class ConfigError(ValueError):
    """Mistakes of the user in a configuration: one line per problem, in `problems`."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


@dataclasses.dataclass(frozen=True)
class Range:
    """Allowed values of a numeric field, `low <= x <= high`; `above` and `below` are strict bounds."""

    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None

    def admits(self, value: float) -> bool:
        return (
            (self.low is None or value >= self.low)
            and (self.high is None or value <= self.high)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        pairs = ((">=", self.low), (">", self.above), ("<=", self.high), ("<", self.below))
        return " and ".join(f"{sign} {bound:g}" for sign, bound in pairs if bound is not None)

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, object]:
        """Returns the bounds as JSON Schema keywords, for pydantic when it describes a configuration."""
        words = {
            "minimum": self.low,
            "maximum": self.high,
            "exclusiveMinimum": self.above,
            "exclusiveMaximum": self.below,
        }
        return {**handler(core_schema), **{word: bound for word, bound in words.items() if bound is not None}}


@dataclasses.dataclass(frozen=True, eq=False)  # by which one it is: every run of a ledger looks its settings up
class Added:
    """Configuration field that was added after runs had been trained.

    `before`: the value that says what every run did until then; `within`: a field whose null gives this one no meaning.
    """

    before: Scalar
    within: str | None = None

    def counts(self, value: Scalar, others: Mapping[str, object]) -> bool:
        """Returns True if `value` changes what earlier runs did, given the other fields by name."""
        return value != self.before and (self.within is None or others.get(self.within) is not None)


def hints(config: type) -> dict[str, object]:
    """Returns field name -> annotation of a configuration class, with `Annotated` kept and class variables left out."""
    return _hints(config)  # mypy refuses a class of `Options` as the key of a cache


@functools.cache
def _hints(config: type) -> dict[str, object]:
    kinds = get_type_hints(config, include_extras=True)
    return {name: kind for name, kind in kinds.items() if kind is not ClassVar and get_origin(kind) is not ClassVar}


@functools.cache
def _list_admitted(annotation: Any) -> tuple[tuple[type, ...], tuple[Scalar, ...]]:
    """Returns the types whose every value fits an annotation, and the words of its `Literal`."""
    if get_origin(annotation) is Annotated:
        return _list_admitted(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        kinds, words = zip(*map(_list_admitted, get_args(annotation)), strict=True)
        return sum(kinds, ()), sum(words, ())
    if get_origin(annotation) is Literal:
        return (), get_args(annotation)
    return {float: (float, int), None: (type(None),)}.get(annotation, (annotation,)), ()


def fits(annotation: Any, value: object) -> bool:
    """Returns True if a YAML scalar has the annotated type; an int passes for a float, a bool for neither."""
    kinds, words = _list_admitted(annotation)
    if isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)):
        return True
    return any(value == word and type(value) is type(word) for word in words)


def normal(annotation: Any, value: Any) -> Any:
    """Returns a value as a field of this annotation stores it: an int given for a float becomes a float."""
    return float(value) if _is_float(annotation) and isinstance(value, int) and not isinstance(value, bool) else value


def _is_float(annotation: Any) -> bool:
    kinds, _ = _list_admitted(annotation)
    return float in kinds and str not in kinds


@functools.cache
def _float_fields(config: type) -> frozenset[str]:
    return frozenset(name for name, annotation in hints(config).items() if _is_float(annotation))


def all_normal(config: type, values: Mapping[str, object]) -> dict[str, Scalar]:
    """Returns a configuration's values with ints that were given for floats made floats."""
    floats = {name: normal(float, values[name]) for name in _float_fields(config) & values.keys()}
    return cast(dict[str, Scalar], {**values, **floats})


@functools.cache
def range_of(annotation: Any) -> Range | None:
    """Returns the `Range` in an annotation, also inside `X | None`; None if it has none."""
    if get_origin(annotation) is Annotated:
        return next((extra for extra in get_args(annotation)[1:] if isinstance(extra, Range)), None)
    return next(filter(None, map(range_of, get_args(annotation))), None)


def describe(annotation: Any) -> str:
    """Returns an annotation in a user's words, such as `float > 0 and <= 1` or `one of cls, mean`."""
    if get_origin(annotation) is Annotated:
        return f"{describe(get_args(annotation)[0])} {range_of(annotation)}"
    if get_origin(annotation) in (Union, types.UnionType):
        return " or ".join(describe(option) for option in get_args(annotation))
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(str(option) for option in get_args(annotation))
    return "null" if annotation in (None, type(None)) else annotation.__name__


def brief(text: str, limit: int = 60) -> str:
    """Returns a text cut to at most `limit` characters, for a message."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def nearest(name: str, valid: Iterable[str]) -> str:
    """Returns a hint that names the closest valid words, three at most; else a few of them, or all."""
    name, valid = name[:LONG_NAME], sorted(valid)[:LONG_LIST]
    close = difflib.get_close_matches(name, valid, n=NEAREST, cutoff=0.5)
    if close:
        others = [brief(word) for word in close[1:] if _similarity(name, word) > _similarity(name, close[0]) - CLOSE]
        return f"did you mean {brief(close[0])}?" + (f" (or {', '.join(others)})" if others else "")
    if len(valid) <= NAMES_LISTED:
        return f"valid: {', '.join(map(brief, valid))}"
    some = difflib.get_close_matches(name, valid, n=NEAREST, cutoff=0.0)
    return f"the nearest of {len(valid)}: {', '.join(map(brief, some))}"


def natural(name: str) -> list[tuple[int, str]]:
    """Returns a sort key by which names with numbers sort naturally: D2 before D10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name) if part]


def _similarity(left: str, right: str) -> float:
    return difflib.SequenceMatcher(None, left, right).ratio()


def problem(config: type, name: str, value: object, prefix: str = "") -> str | None:
    """Returns the problem of `name=value` as a field of `config`; None when there is none."""
    find = _problem if isinstance(value, Scalar) else _problem.__wrapped__  # a list, say, is no key of the cache
    return find(config, name, value, prefix)


@functools.lru_cache(maxsize=4096, typed=True)
def _problem(config: type, name: str, value: object, prefix: str) -> str | None:
    """Implements `problem` with a cache: the cells of a grid give the same few values thousands of times."""
    if name not in hints(config):
        hint = nearest(prefix + name, [prefix + field for field in hints(config)])
        return f"unknown key: {prefix}{brief(name)}={brief(str(value))}; {hint}"
    annotation = hints(config)[name]
    allowed = range_of(annotation)
    if not fits(annotation, value):
        words = [word for word in _list_admitted(annotation)[1] if isinstance(word, str)]
        if words and isinstance(value, str):
            return f"unknown value: {prefix}{name}={brief(value)}; {nearest(value, words)}"
        kind = type(value).__name__
        return f"wrong type: {prefix}{name}={brief(repr(value))} is a {kind}; give {describe(annotation)}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"out of range: {prefix}{name}={value}; give a finite number"
    if allowed and isinstance(value, int | float) and not allowed.admits(value):
        return f"out of range: {prefix}{name}={value}; give {describe(annotation)}"
    return None


def problems(config: type, values: Mapping[str, object], prefix: str = "") -> list[str]:
    """Returns every problem of `values` as fields of `config`, one line each."""
    return [line for name, value in values.items() if (line := problem(config, name, value, prefix))]


T = TypeVar("T")


def make(config: type[T], values: Mapping[str, object], prefix: str = "") -> T:
    """Builds an instance of `config`, ints given for floats made floats; raises ConfigError with every problem."""
    lines = problems(config, values, prefix)
    if lines:
        raise ConfigError(lines)
    return make_checked(config, values)


def make_checked(config: type[T], values: Mapping[str, object]) -> T:
    """Builds an instance of `config` from values that were checked before."""
    return config(**all_normal(config, values))
