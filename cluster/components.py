"""Components of a method: the settings that take each out of a configuration (`components:` of the method's YAML)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster import keys
from cse_train.fields import Scalar

SHAPE = "give {name: {key: value that turns it off}}, or {key: {value: what replaces it}}"


@dataclass(frozen=True)
class Component:
    """One part of a method that can be left out."""

    off: Mapping[str, Scalar]
    """Dotted key -> the value that turns the component off, whatever the key holds."""
    replaced: Mapping[str, Mapping[str, Scalar]]
    """Dotted key -> {value with the component, as text: value without}; under any other value it is not there."""

    def changes(self, flat: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """The settings that take the component out of a run's flat configuration; empty where it is not in it."""
        if any(str(flat[key]) not in values for key, values in self.replaced.items()):
            return {}
        found = {key: values[str(flat[key])] for key, values in self.replaced.items()}
        return found | {key: value for key, value in self.off.items() if flat[key] != value}


def parse_components(raw: Mapping[str, Any], named: Sequence[str], found: list[str]) -> dict[str, Component]:
    """Name -> component; every problem of the block goes to `found`, one line each. `named`: the space's methods."""
    block = raw.get("components", {})
    if not isinstance(block, dict):
        found.append(f"wrong type: components={block}; {SHAPE}")
        return {}
    problems = [line for name, value in block.items() for line in _problems(name, value, named)]
    found += problems
    return {} if problems else {name: _component(value, named[0]) for name, value in block.items()}


def _problems(name: str, value: object, named: Sequence[str]) -> list[str]:
    if not isinstance(value, dict) or not value:
        return [f"wrong component: components.{name}={value}; {SHAPE}"]
    return [line for key, off in value.items() for line in _setting_problems(f"components.{name}", key, off, named)]


def _setting_problems(where: str, key: str, off: Any, named: Sequence[str]) -> list[str]:
    if key == "method" or isinstance(off, list) or off == {}:
        return [f"wrong component: {where}.{key}={off}; {SHAPE}"]
    given = [*off, *off.values()] if isinstance(off, dict) else [off]
    return [line.replace(": ", f": {where}.", 1) for one in given for line in keys.problems({key: one}, named)]


def _component(value: Mapping[str, Any], method: str) -> Component:
    plain = {key: keys.normal(key, off, method) for key, off in value.items() if not isinstance(off, dict)}
    return Component(plain, {key: dict(off) for key, off in value.items() if isinstance(off, dict)})
