"""Checks dotted keys against the option classes that they name: type, range, and the method that has the key."""

from collections.abc import Iterable, Mapping
from typing import Any

from cse_train import fields, methods
from cse_train.config import TrainConfig, valid_keys
from cse_train.evaluate.pairs import dev_problem
from cse_train.fields import Scalar

SEED = "train.seed"
DEV = "train.dev"


def annotation(key: str, method: str) -> Any | None:
    """Returns the annotated type of a method's dotted key; None where the method lacks the key."""
    home = _find_home(key, method)
    return None if home is None else fields.hints(home[0]).get(home[1])


def _find_home(key: str, method: str) -> tuple[type, str] | None:
    """Returns the options class and the field name of a dotted key; None where the method lacks it."""
    config = methods.config_class(method) if method in methods.names() else None
    if key.startswith("train."):
        return (TrainConfig, key.removeprefix("train.")) if config is None or config.SHARED is None else None
    return (config, key.removeprefix(config.PREFIX)) if config and key.startswith(config.PREFIX) else None


def have(settings: Iterable[str], method: str) -> bool:
    """Tells whether the method has every one of these keys."""
    return all(annotation(key, method) is not None for key in settings)


def problem(key: str, value: object, method: str) -> str | None:
    """Returns what is wrong with `key=value` in a run of `method`; None when nothing is."""
    if key == "method":
        return methods.unknown(value)
    if key == SEED:
        return f"wrong key: {SEED}={value}; seeds come from `seeds:` or --seeds"
    if key == DEV and isinstance(value, str) and (line := dev_problem(value)):
        return line
    home = _find_home(key, method)
    if home is None or home[1] not in fields.hints(home[0]):
        return _unknown(key, value, method)
    return fields.problem(*home, value, key.removesuffix(home[1]))


def problems(settings: Mapping[str, object], names: Iterable[str]) -> list[str]:
    """Returns every problem of settings that must suit all the named methods, without repetition."""
    lines = [line for m in names for key, value in settings.items() if (line := problem(key, value, m))]
    return list(dict.fromkeys(lines))


def _unknown(key: str, value: object, method: str) -> str:
    owners = [other for other in methods.list_methods() if other != method and annotation(key, other) is not None]
    if key.startswith("method.") and owners:
        return (
            f"key of another method: {key}={value} belongs to {', '.join(owners)}, this space runs {method}; "
            "remove it, or put it under `when: {method: ...}`"
        )
    return f"unknown key: {key}={value}; {fields.nearest(key, [k for k in valid_keys(method) if k != SEED])}"


def normal(key: str, value: Scalar, method: str) -> Scalar:
    """Returns the value as the options class will hold it: an int given for a float becomes a float."""
    result: Scalar = fields.normal(annotation(key, method), value)
    return result
