"""Profiles: every scale setting (encoder, corpus, examples, batch, evaluations, learning rates) in one file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cluster import keys
from cluster.catalog import find_profile
from cluster.yaml_strict import read_yaml
from cse_train import fields, methods
from cse_train.fields import ConfigError, Scalar

DEFAULT = "small"


@dataclass(frozen=True)
class Profile:
    """Settings under which any space can run; a method's own settings win over the shared ones."""

    name: str
    train: Mapping[str, Scalar] = field(default_factory=dict)
    """Dotted keys shared by all methods."""
    methods: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)
    """Method -> dotted keys."""
    stand_ins: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)
    """Axis -> {value of a table, as text: what runs in its place at this scale, or None for no counterpart}."""

    def settings(self, method: str) -> dict[str, Scalar]:
        return {**self.train, **self.methods.get(method, {})}

    def leaves_out(self, axis: str, value: Scalar) -> bool:
        """Whether a table's value has no counterpart at this scale."""
        return self.stand_ins.get(axis, {}).get(str(value), value) is None and value is not None

    def stand_in(self, axis: str, value: Scalar) -> Scalar:
        """What runs where a table says `value`; mostly the value itself."""
        return self.stand_ins.get(axis, {}).get(str(value), value)


def load_profile(name: str) -> Profile:
    """A shipped profile by name, or one by path; ConfigError with every problem of the file."""
    path = find_profile(name)
    raw = read_yaml(path)
    found = _problems(raw)
    if found:
        raise ConfigError([f"{path}: {line}" for line in found])
    train = {f"train.{key}": value for key, value in raw.get("train", {}).items()}
    return Profile(path.stem, train, raw.get("methods", {}), raw.get("stand_ins", {}))


def _problems(raw: Mapping[str, Any]) -> list[str]:
    known = ("version", "title", "train", "methods", "stand_ins")
    found = [f"unknown key: {key}={raw[key]}; {fields.nearest(key, known)}" for key in raw if key not in known]
    if raw.get("version") != 1:
        found.append(f"wrong version: version={raw.get('version')}; write `version: 1`")
    train, own = raw.get("train", {}), raw.get("methods", {})
    if not isinstance(train, dict) or not isinstance(own, dict):
        return [*found, "wrong type: train and methods are mappings of keys to values"]
    found += keys.problems({f"train.{key}": value for key, value in train.items()}, methods.names()[:1])
    for method, settings in own.items():
        found += _method_problems(method, settings)
    return found + _stand_in_problems(raw.get("stand_ins", {}))


def _stand_in_problems(stand_ins: object) -> list[str]:
    if not isinstance(stand_ins, dict) or not all(isinstance(values, dict) for values in stand_ins.values()):
        return ["wrong type: stand_ins is a mapping such as {method.generator: {bert-base-uncased: wiki-l4-h128}}"]
    given = [(key, value) for key, values in stand_ins.items() for value in values.values() if value is not None]
    return [line for key, value in given if (line := _of_any_method(key, value))]


def _of_any_method(key: str, value: Scalar) -> str | None:
    """The problem of a setting that must suit one method at least."""
    found = [keys.problem(key, value, method) for method in methods.names()]
    return None if None in found else found[0]


def _method_problems(method: str, settings: object) -> list[str]:
    wrong = keys.problem("method", method, method)
    if wrong:
        return [wrong]
    if not isinstance(settings, dict):
        return [f"wrong type: methods.{method}={settings!r}; give a mapping such as {{train.learning_rate: 3e-5}}"]
    return keys.problems(settings, [method])
