"""Profiles: every scale setting (encoder, corpus, examples, batch, evaluations, learning rates) in one file."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Predicate
from pydantic import Field

from cse_train import methods
from cse_train.fields import ConfigError, Json, Scalar, nearest
from search_spaces import keys
from search_spaces.catalog import find_gone, find_profile, former, profiles
from search_spaces.file_shape import CLOSED, VERSION_ADVICE, Give, Text, read
from search_spaces.strict_yaml import read_yaml
from search_spaces.user_data import absolute, absolute_models

SUBSTITUTIONS = Give("give a mapping such as {method.generator: {bert-base-uncased: words-l4-h128}}")


RATE = "train.learning_rate"
"""Key that a method without an entry takes from the method that it is `LIKE`.

At another learning rate the method would win or lose by its rate alone.
"""


@dataclass(frozen=True)
class Recipe:
    """Settings that a paper gives for one encoder or objective of a method."""

    __pydantic_config__ = CLOSED
    when: Annotated[Mapping[str, object], Predicate(lambda when: "method" in when)]
    """Conditions on a cell: dotted keys, `method` among them, with the values that they must have."""
    settings: Annotated[Mapping[str, Any], Field(alias="set")]

    def fits(self, settings: Mapping[str, Scalar]) -> bool:
        return all(settings.get(key) == value for key, value in self.when.items())


@dataclass(frozen=True)
class Profile:
    """Settings under which any space can run; a method's own settings override the shared ones."""

    name: str
    train: Mapping[str, Scalar] = field(default_factory=dict)
    """Dotted keys and values shared by all methods."""
    methods: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)
    """Method -> dotted keys that override the shared ones."""
    substitutions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Axis -> {value of a table, as text: value that runs at this scale, or None for no counterpart}.

    A method's name -> a mapping of the same form, which takes precedence for that method.
    """
    recipes: tuple[Recipe, ...] = ()
    """Recipes, which override the method's settings and are overridden by a space's own.

    Later ones override earlier.
    """
    written: Json | None = field(default=None, compare=False)
    """Content of a user's own YAML file, with absolute paths; None for a shipped profile."""

    def over(self, base: "Profile") -> "Profile":
        """Returns this profile laid over `base`, key by key; the base's recipes come first."""
        parts = (self.train, base.train), (self.methods, base.methods), (self.substitutions, base.substitutions)
        train, by_method, substitutions = (_merge(*part) for part in parts)
        return Profile(self.name, train, by_method, substitutions, (*base.recipes, *self.recipes))

    def settings(self, method: str) -> dict[str, Scalar]:
        """Returns the settings of a method.

        A method that the profile does not name takes the learning rate of the method that it is LIKE. A method with a
        training loop of its own takes no shared settings.
        """
        by_method = self.methods.get(method)
        if methods.is_known(method) and methods.config_class(method).SHARED is not None:
            return dict(by_method or {})
        if by_method is None and methods.is_known(method):
            like = self.methods.get(methods.config_class(method).LIKE or method, {})
            by_method = {key: value for key, value in like.items() if key == RATE}
        return {**self.train, **(by_method or {})}

    def recipe(self, settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Returns the settings that the recipes give a cell with these settings."""
        return {
            key: value for recipe in self.recipes if recipe.fits(settings) for key, value in recipe.settings.items()
        }

    def leaves_out(self, axis: str, value: Scalar, method: str) -> bool:
        """Tells whether a table's value has no counterpart at this scale."""
        return value is not None and self.substitution(axis, value, method) is None

    def substitution(self, axis: str, value: Scalar, method: str) -> Scalar:
        """Returns the value that runs where a table says `value`; mostly the value itself."""
        by_method = self.substitutions.get(method, {}).get(axis, {})
        run: Scalar = by_method.get(str(value), self.substitutions.get(axis, {}).get(str(value), value))
        return run


@dataclass(frozen=True, kw_only=True)
class ProfileFile:
    """Keys of a profile's YAML file."""

    version: Annotated[Literal[1], VERSION_ADVICE]
    title: Text = ""
    extends: Annotated[Text | None, Give("give a shipped profile such as small")] = None
    """Name of a shipped profile that this one overrides key by key."""
    train: Annotated[dict[str, Any], Give("give a mapping such as {batch_size: 64}")] = field(default_factory=dict)
    methods: Annotated[
        dict[str, dict[str, Any]], Give("give a mapping such as {simcse: {train.learning_rate: 3e-5}}")
    ] = field(default_factory=dict)
    substitutions: Annotated[dict[str, dict[str, Any]], SUBSTITUTIONS] = field(default_factory=dict)
    """Axis -> {value: what runs}, or method -> a mapping of the same form for that method alone."""
    recipes: Annotated[
        tuple[Recipe, ...], Give("give {when: {method: ..., KEY: value}, set: {KEY: value}}", "wrong recipe")
    ] = ()


def load_profile(name: str) -> Profile:
    """Loads a shipped profile by name, or another by path; raises ConfigError with every problem of the file.

    Relative paths of encoders and the like count from the file's folder.
    """
    path = find_profile(name)
    if path in profiles().values():
        return _load_shipped(path, path.stat().st_mtime_ns, frozenset(methods.names()))
    folder = path.resolve().parent
    written = absolute_models(read_yaml(path), folder)
    if isinstance(train := written.get("train"), dict):
        written["train"] = {key: absolute(f"train.{key}", value, folder) for key, value in train.items()}
    return replace(parse_profile(written, path), written=written)


@functools.cache
def _load_shipped(path: Path, modified: int, names: frozenset[str]) -> Profile:
    """Loads a shipped profile, cached by file and known methods, because a site asks for profiles six hundred times."""
    return parse_profile(read_yaml(path), path)


def load_former(name: str) -> Profile:
    """Loads a profile as it was shipped once."""
    file = former()[name]
    return parse_profile(read_yaml(file), file, recorded=True)


def parse_profile(raw: Json, path: Path, *, recorded: bool = False) -> Profile:
    """Parses a profile from its YAML's content; `path` names it in errors and need not exist.

    A `recorded` one, that of an old sweep, may extend a profile that is shipped no more.
    """
    file, problems = read(ProfileFile, {"version": None, **raw})
    train = {f"train.{key}": value for key, value in file.train.items()}
    problems += keys.problems(train, methods.list_methods()[:1])
    for method, settings in file.methods.items():
        problems += keys.problems({"method": method}, [method]) or keys.problems(settings, [method])
    problems += _substitution_problems(file.substitutions)
    for recipe in file.recipes:
        problems += keys.problems({**recipe.when, **recipe.settings}, [str(recipe.when["method"])])
    bases = {**(former() if recorded else {}), **profiles()}
    if gone := file.extends not in bases and find_gone("extends", str(file.extends)):
        problems.append(gone)
    elif file.extends is not None and file.extends not in bases:
        problems.append(f"unknown profile: extends={file.extends}; {nearest(file.extends, bases)}")
    if problems:
        raise ConfigError([f"{path}: {line}" for line in problems])
    profile = Profile(path.stem, train, file.methods, file.substitutions, file.recipes)
    if file.extends is None:
        return profile
    shipped = file.extends in profiles()
    return profile.over(load_profile(str(bases[file.extends])) if shipped else load_former(file.extends))


def _merge(upper: Any, lower: Any) -> Any:
    if not (isinstance(upper, Mapping) and isinstance(lower, Mapping)):
        return upper
    return {key: _merge(upper.get(key, lower.get(key)), lower.get(key)) for key in {**lower, **upper}}


def _substitution_problems(substitutions: Mapping[str, Mapping[str, Any]]) -> list[str]:
    by_method = {name: axes for name, axes in substitutions.items() if name in methods.names()}
    tables = [(axis, values, "") for axis, values in substitutions.items() if axis not in by_method]
    tables += [(axis, values, method) for method, axes in by_method.items() for axis, values in axes.items()]
    wrong = [values for _, values, _ in tables if not isinstance(values, dict)]
    if wrong:
        return [SUBSTITUTIONS.line("substitutions", wrong[0])]
    targets = [(axis, v, method) for axis, values, method in tables for v in values.values() if v is not None]
    problems = []
    for axis, value, method in targets:  # one for all methods must suit at least one of them
        lines = [keys.problem(axis, value, name) for name in ([method] if method else methods.list_methods())]
        problems += [lines[0]] if lines[0] and None not in lines else []
    return problems
