"""Configuration fields as data: types, ranges, and every problem of a set of values at once."""

import dataclasses
import difflib
import functools
import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Scalar = bool | int | float | str | None


class ConfigError(ValueError):
    """The user's mistake: every problem found, one line each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


@dataclasses.dataclass(frozen=True)
class Range:
    """Allowed values `low <= x <= high`; `above` and `below` are strict bounds."""

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


@functools.cache
def hints(config: type) -> dict[str, Any]:
    """Field name -> annotation, `Annotated` kept."""
    return get_type_hints(config, include_extras=True)


def fits(annotation: Any, value: object) -> bool:
    """Whether a YAML scalar has the annotated type; an int passes for a float, a bool for neither."""
    if get_origin(annotation) is Annotated:
        return fits(get_args(annotation)[0], value)
    if get_origin(annotation) in (Union, types.UnionType):
        return any(fits(option, value) for option in get_args(annotation))
    if get_origin(annotation) is Literal:
        return any(value == option and type(value) is type(option) for option in get_args(annotation))
    if annotation is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if annotation in (None, type(None)):
        return value is None
    return isinstance(value, annotation)


_SAMPLES: tuple[tuple[Scalar, ...], ...] = ((True, False), (2**40, -(2**40)), (0.5, -0.5), ("", "\0"), (None,))
"""Of each type of a setting, values that are not all among the words of a `Literal` unless it has them all."""


def _whole_types(annotation: Any) -> frozenset[type]:
    """The types of which every value fits."""
    return frozenset(type(some[0]) for some in _SAMPLES if all(fits(annotation, value) for value in some))


def range_of(annotation: Any) -> Range | None:
    """The `Range` in an annotation, also inside `X | None`."""
    if get_origin(annotation) is Annotated:
        return next((extra for extra in get_args(annotation)[1:] if isinstance(extra, Range)), None)
    return next((found for option in get_args(annotation) if (found := range_of(option))), None)


def describe(annotation: Any) -> str:
    """A type in a user's words: `float > 0 and <= 1`, `one of cls, mean`."""
    if get_origin(annotation) is Annotated:
        return f"{describe(get_args(annotation)[0])} {range_of(annotation)}"
    if get_origin(annotation) in (Union, types.UnionType):
        return " or ".join(describe(option) for option in get_args(annotation))
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(str(option) for option in get_args(annotation))
    return "null" if annotation in (None, type(None)) else annotation.__name__


def nearest(name: str, valid: Iterable[str]) -> str:
    """A hint that names the closest valid word, or lists them all."""
    valid = sorted(valid)
    close = difflib.get_close_matches(name, valid, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"valid: {', '.join(valid)}"


@functools.cache
def _rules(config: type) -> dict[str, tuple[Any, frozenset[type], Range | None]]:
    """Field name -> annotation, types of which every value fits, range; settings come by the thousand."""
    return {name: (wanted, _whole_types(wanted), range_of(wanted)) for name, wanted in hints(config).items()}


def problem(config: type, name: str, value: object, prefix: str = "") -> str | None:
    """What is wrong with `name=value` for a field of `config`; None when nothing is."""
    if name not in _rules(config):
        valid = [prefix + known for known in hints(config)]
        return f"unknown key: {prefix}{name}={value}; {nearest(prefix + name, valid)}"
    annotation, whole, allowed = _rules(config)[name]
    if type(value) not in whole and not fits(annotation, value):
        return f"wrong type: {prefix}{name}={value!r} is a {type(value).__name__}; give {describe(annotation)}"
    if allowed and value is not None and not allowed.admits(value):  # type: ignore[arg-type]
        return f"out of range: {prefix}{name}={value}; give {describe(annotation)}"
    return None


def problems(config: type, values: Mapping[str, object], prefix: str = "") -> list[str]:
    """Every problem of `values` as fields of `config`."""
    return [found for name, value in values.items() if (found := problem(config, name, value, prefix))]


T = TypeVar("T")


def make(config: type[T], values: Mapping[str, object], prefix: str = "") -> T:
    """An instance of `config`; raises ConfigError with every problem. Ints given for floats become floats."""
    found = problems(config, values, prefix)
    if found:
        raise ConfigError(found)
    return made(config, values)


def made(config: type[T], values: Mapping[str, object]) -> T:
    """`make` of values that were looked at before."""
    floats: frozenset[str] = _floats(config)  # type: ignore[arg-type]
    return config(**{k: float(v) if k in floats and isinstance(v, int) else v for k, v in values.items()})


@functools.cache
def _floats(config: type) -> frozenset[str]:
    """Fields that hold a float where one gives an int."""
    return frozenset(name for name, wanted in hints(config).items() if fits(wanted, 0.5) and not fits(wanted, ""))
