"""Strict YAML reader: scalars of YAML 1.2 (`1e-5` is a number, `on` is text), no duplicate keys, plain values only."""

import math
import re
from pathlib import Path
from typing import Any, TypeVar

import yaml
from yaml.composer import Composer

from cse_train.fields import ConfigError
from cse_train.reading import first_line, require_size

MOST_YAML_BYTES = 10_000_000
"""Maximum size in bytes of a YAML file; a shipped one has a few thousand."""
Number = TypeVar("Number", int, float)
MOST_DIGITS = 18
"""Maximum number of characters of an integer, sign included, which every part of the project holds without loss."""


class StrictLoader(Composer, yaml.CSafeLoader):
    """YAML loader that resolves scalars by YAML 1.2's core schema and collects repeated keys in `duplicates`.

    libyaml reads the text, which takes a third of the time; nodes are composed by PyYAML's Python composer, because
    that one can refuse an alias and ends deep nesting with an exception.
    """

    def __init__(self, stream: str) -> None:
        yaml.CSafeLoader.__init__(self, stream)
        Composer.__init__(self)
        self.duplicates: list[str] = []

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Composes a node; refuses aliases, with which a few lines can contain themselves, or a billion values."""
        if self.check_event(yaml.AliasEvent):
            event: Any = self.peek_event()
            raise yaml.composer.ComposerError(problem="an alias; write the value out", problem_mark=event.start_mark)
        return super().compose_node(parent, index)


def _mapping(loader: StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    mapping: dict[Any, Any] = {}
    lines: dict[Any, int] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        line = key_node.start_mark.line + 1
        if not isinstance(key, str):
            loader.duplicates.append(f"wrong key: {key!r} on line {line}; keys are text, quote it")
        elif key in mapping:
            loader.duplicates.append(f"duplicate key: {key} on line {line}, first on line {lines[key]}; keep one")
        else:
            mapping[key] = loader.construct_object(value_node, deep=True)
            lines[key] = line
    return mapping


def _decimal(loader: StrictLoader, node: yaml.ScalarNode) -> int:
    digits = loader.construct_scalar(node)
    if len(digits) > MOST_DIGITS:
        raise yaml.constructor.ConstructorError(
            problem=f"a number of {len(digits)} digits", problem_mark=node.start_mark
        )
    return _number(int, digits, node)


def _float(loader: StrictLoader, node: yaml.ScalarNode) -> float:
    value = _number(float, loader.construct_scalar(node), node)
    if not math.isfinite(value):
        raise yaml.constructor.ConstructorError(problem="a number beyond 1.8e308", problem_mark=node.start_mark)
    return value


def _bool(loader: StrictLoader, node: yaml.ScalarNode) -> bool:
    word = loader.construct_scalar(node).lower()
    if word not in ("true", "false"):
        raise yaml.constructor.ConstructorError(problem="neither true nor false", problem_mark=node.start_mark)
    return bool(word == "true")


def _refuse(loader: StrictLoader, node: yaml.Node) -> None:
    raise yaml.constructor.ConstructorError(problem=f"a value with the tag {node.tag}", problem_mark=node.start_mark)


def _number(kind: type[Number], text: str, node: yaml.Node) -> Number:
    """Converts text to a number; it can only fail under an explicit tag such as !!int."""
    try:
        return kind(text)
    except ValueError:
        raise yaml.constructor.ConstructorError(problem="no number", problem_mark=node.start_mark) from None


TAG = "tag:yaml.org,2002:"
SCALARS = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
)
"""(type, pattern, first characters) of plain scalars; the first type that matches counts."""
StrictLoader.yaml_implicit_resolvers = {}
for kind, pattern, first in SCALARS:
    StrictLoader.add_implicit_resolver(TAG + kind, re.compile(f"^(?:{pattern})$"), first)
StrictLoader.add_constructor(TAG + "map", _mapping)
StrictLoader.add_constructor(TAG + "bool", _bool)
StrictLoader.add_constructor(TAG + "int", _decimal)
StrictLoader.add_constructor(TAG + "float", _float)


for kind in ("binary", "omap", "pairs", "set", "timestamp"):
    StrictLoader.add_constructor(TAG + kind, _refuse)


Written = dict[str, Any]
"""Content of a YAML file whose top level is a mapping."""


def read_yaml(path: Path) -> Written:
    """Reads the mapping in `path`.

    Raises ConfigError with file and line of everything that is not plain strict YAML.
    """
    require_size(path, MOST_YAML_BYTES, "write a shorter one")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError([f"unreadable file: file={path}; {error.strerror}, give a YAML file"]) from None
    except UnicodeDecodeError:
        raise ConfigError([f"{path}: not text: encoding=unknown; save it as UTF-8"]) from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, name: str) -> Written:
    """Parses text as `read_yaml` parses a file; `name` precedes each problem."""
    try:
        loader = StrictLoader(text)
        value = loader.get_single_data()
    except yaml.YAMLError as error:
        mark: yaml.error.Mark | None = getattr(error, "problem_mark", None)
        place = f"line={mark.line + 1}" if mark else "line=unknown"
        problem = Exception(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
        raise ConfigError([f"{name}: not YAML: {place}; {first_line(problem)}"]) from None
    except RecursionError:
        raise ConfigError([f"{name}: not YAML: depth=unbounded; write fewer brackets within brackets"]) from None
    if loader.duplicates:
        raise ConfigError([f"{name}: {line}" for line in loader.duplicates])
    if not isinstance(value, dict):
        kind = type(value).__name__
        raise ConfigError([f"{name}: not a mapping: file={kind}; write `version: 1` and the other keys at top level"])
    return value
