"""Profiles: every scale setting (encoder, corpus, examples, batch, evaluations, learning rates) in one file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cse_train import fields, methods
from cse_train.fields import ConfigError, Scalar
from search_spaces import keys
from search_spaces.catalog import find_profile
from search_spaces.strict_yaml import read_yaml


@dataclass(frozen=True)
class Recipe:
    """Settings that a paper gives for one encoder or objective of a method."""

    when: Mapping[str, Scalar]
    """Dotted keys, `method` among them, with the values that a cell must have."""
    settings: Mapping[str, Scalar]

    def fits(self, given: Mapping[str, Scalar]) -> bool:
        return all(given.get(key) == value for key, value in self.when.items())


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
    own_stand_ins: Mapping[str, Mapping[str, Mapping[str, Scalar]]] = field(default_factory=dict)
    """Method -> stand-ins that go before the shared ones."""
    recipes: tuple[Recipe, ...] = ()
    """Over the method's settings and under a space's own; a later one over an earlier one."""

    def settings(self, method: str) -> dict[str, Scalar]:
        return {**self.train, **self.methods.get(method, {})}

    def recipe(self, given: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """What the recipes say of a cell with these settings."""
        return {key: value for one in self.recipes if one.fits(given) for key, value in one.settings.items()}

    def leaves_out(self, axis: str, value: Scalar, method: str) -> bool:
        """Whether a table's value has no counterpart at this scale."""
        return value is not None and self.stand_in(axis, value, method) is None

    def stand_in(self, axis: str, value: Scalar, method: str) -> Scalar:
        """What runs where a table says `value`; mostly the value itself."""
        own = self.own_stand_ins.get(method, {}).get(axis, {})
        return own.get(str(value), self.stand_ins.get(axis, {}).get(str(value), value))


def load_profile(name: str) -> Profile:
    """A shipped profile by name, or one by path; ConfigError with every problem of the file."""
    path = find_profile(name)
    raw = read_yaml(path)
    found = _problems(raw)
    if found:
        raise ConfigError([f"{path}: {line}" for line in found])
    train = {f"train.{key}": value for key, value in raw.get("train", {}).items()}
    shared, own = _parted(raw.get("stand_ins", {}))
    recipes = tuple(Recipe(one["when"], one["set"]) for one in raw.get("recipes", ()))
    return Profile(path.stem, train, raw.get("methods", {}), shared, own, recipes)


def _parted(stand_ins: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Stand-ins by axis, and those under a method's name."""
    own = {name: values for name, values in stand_ins.items() if name in methods.names()}
    return {axis: values for axis, values in stand_ins.items() if axis not in own}, own


def _problems(raw: Mapping[str, Any]) -> list[str]:
    known = ("version", "title", "train", "methods", "stand_ins", "recipes")
    found = [f"unknown key: {key}={raw[key]}; {fields.nearest(key, known)}" for key in raw if key not in known]
    if raw.get("version") != 1:
        found.append(f"wrong version: version={raw.get('version')}; write `version: 1`")
    train, own = raw.get("train", {}), raw.get("methods", {})
    if not isinstance(train, dict) or not isinstance(own, dict):
        return [*found, "wrong type: train and methods are mappings of keys to values"]
    found += keys.problems({f"train.{key}": value for key, value in train.items()}, methods.names()[:1])
    for method, settings in own.items():
        found += _method_problems(method, settings)
    return found + _stand_in_problems(raw.get("stand_ins", {})) + _recipe_problems(raw.get("recipes", []))


def _stand_in_problems(stand_ins: object) -> list[str]:
    wrong = ["wrong type: stand_ins is a mapping such as {method.generator: {bert-base-uncased: wiki-l4-h128}}"]
    if not isinstance(stand_ins, dict):
        return wrong
    shared, own = _parted(stand_ins)
    tables = [(axis, values, "") for axis, values in shared.items()]
    for method, axes in own.items():
        tables += [(axis, values, method) for axis, values in axes.items()] if isinstance(axes, dict) else [("", 0, "")]
    if not all(isinstance(values, dict) for _, values, _ in tables):
        return wrong
    given = [(axis, v, method) for axis, values, method in tables for v in values.values() if v is not None]
    found = [keys.problem(a, v, method) if method else _of_any_method(a, v) for a, v, method in given]
    return [line for line in found if line]


def _recipe_problems(recipes: Any) -> list[str]:
    found: list[str] = []
    for recipe in recipes if isinstance(recipes, list) else [recipes]:
        if not _is_recipe(recipe):
            return [f"wrong recipe: recipes={recipe}; give {{when: {{method: ..., KEY: value}}, set: {{KEY: value}}}}"]
        found += keys.problems({**recipe["when"], **recipe["set"]}, [str(recipe["when"]["method"])])
    return found


def _is_recipe(recipe: Any) -> bool:
    if not isinstance(recipe, dict) or set(recipe) != {"when", "set"}:
        return False
    return all(isinstance(part, dict) for part in recipe.values()) and "method" in recipe["when"]


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
