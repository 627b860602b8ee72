"""Domains of a space's keys: five kinds of domain, and conditions (`when:`) under which a key counts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cse_train import fields
from cse_train.fields import Scalar

CONTINUOUS = ("loguniform", "uniform")
DOMAIN_WORDS = (*CONTINUOUS, "randint", "choice", "grid")
"""Words that name a kind of domain in YAML.

`randint: [a, b]` includes both ends; `grid` runs every value, `choice` lets a sampler pick among them.
"""

DOMAIN_KEYS = (*DOMAIN_WORDS, "when")


@dataclass(frozen=True)
class Domain:
    """One axis: its domain word, its two ends or its values, and the condition under which it counts."""

    word: str
    arguments: tuple[Scalar, ...]
    when: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)

    @property
    def finite(self) -> bool:
        return self.word not in CONTINUOUS

    def values(self) -> Sequence[Scalar]:
        """Returns every value of a finite domain, in the file's order."""
        assert self.finite, self.word
        if self.word == "randint":
            low, high = self.ends()
            return range(int(low), int(high) + 1)
        return self.arguments

    def ends(self) -> tuple[float, float]:
        """Returns the smallest and the largest value of an interval."""
        low, high = self.arguments
        assert isinstance(low, int | float) and isinstance(high, int | float)
        return low, high

    def active(self, settings: Mapping[str, Scalar]) -> bool:
        """Tells whether the axis counts, given the values of the axes before it."""
        return all(settings.get(key) in allowed for key, allowed in self.when.items())

    def methods(self, names: Sequence[str]) -> list[str]:
        """Returns those methods of `names` under which the axis can count."""
        return [name for name in names if name in self.when.get("method", names)]

    def contains(self, value: Scalar) -> bool:
        if self.finite:
            return value in self.values()
        return isinstance(value, int | float) and self.ends()[0] <= value <= self.ends()[1]

    def draw(self, rng: np.random.Generator) -> Scalar:
        """Draws a random value of the domain."""
        if self.finite:
            values = self.values()
            return values[int(rng.integers(len(values)))]
        low, high = self.ends()
        if self.word == "uniform":
            return float(rng.uniform(low, high))
        # exp(log(x)) may leave the interval by a rounding error.
        return float(np.clip(math.exp(rng.uniform(math.log(low), math.log(high))), low, high))


Axes = Mapping[str, Domain]


def parse_domain(name: str, raw: Any) -> tuple[Domain | None, list[str]]:
    """Parses a domain from YAML; returns None and every problem where it is not valid."""
    if not isinstance(raw, Mapping):
        example = ", ".join(map(str, raw)) if isinstance(raw, list) else raw
        return None, [f"wrong domain: {name}={raw!r}; give a mapping such as {{grid: [{example}]}}"]
    words = [key for key in raw if key in DOMAIN_WORDS]
    problems = [
        f"unknown key: {name}.{key}; {fields.nearest(key, DOMAIN_KEYS)}" for key in raw if key not in DOMAIN_KEYS
    ]
    if len(words) != 1:
        return None, [*problems, f"wrong domain: {name}={dict(raw)!r}; give exactly one of {', '.join(DOMAIN_WORDS)}"]
    when: dict[str, tuple[Scalar, ...]] = {}
    conditions = raw.get("when", {})
    if isinstance(conditions, Mapping):
        when = {key: tuple(v) if isinstance(v, list) else (v,) for key, v in conditions.items()}
    else:
        problems.append(f"wrong type: {name}.when={conditions!r}; give a mapping such as {{method: esimcse}}")
    problems += _argument_problems(name, words[0], raw[words[0]])
    return (None, problems) if problems else (Domain(words[0], tuple(raw[words[0]]), when), [])


def _argument_problems(name: str, word: str, raw: Any) -> list[str]:
    label = f"{name}.{word}={raw!r}"
    if not isinstance(raw, list) or any(isinstance(v, list | dict) for v in raw):
        return [f"wrong type: {label}; give a list of plain values"]
    if word in ("grid", "choice"):
        return _value_problems(name, word, raw)
    numbers = int if word == "randint" else (int, float)
    if len(raw) != 2 or any(isinstance(v, bool) or not isinstance(v, numbers) for v in raw):
        return [f"wrong ends: {label}; give [low, high] as two {'integers' if word == 'randint' else 'numbers'}"]
    if raw[0] > raw[1] or (raw[0] == raw[1] and word != "randint"):
        return [f"wrong ends: {label}; put the smaller end first"]
    if word == "loguniform" and raw[0] <= 0:
        return [f"wrong ends: {label}; both ends of loguniform are above 0"]
    return []


def _value_problems(name: str, word: str, raw: list[Any]) -> list[str]:
    if not raw:
        return [f"empty grid: {name}.{word}=[]; give at least one value or remove the key"]
    twice = [
        v for i, v in enumerate(raw) if any(v == u and isinstance(v, bool) == isinstance(u, bool) for u in raw[:i])
    ]
    return [f"duplicate value: {name}.{word}={v}; list it once" for v in twice]


def parents_first(axes: Axes) -> tuple[dict[str, Domain], list[str]]:
    """Orders axes so that parents of `when:` come first, else as in the file; reports circular conditions."""
    ordered: dict[str, Domain] = {}
    waiting = dict(axes)
    while waiting:
        ready = next((n for n, d in waiting.items() if not any(k in waiting for k in d.when)), None)
        if ready is None:
            circle = ", ".join(waiting)
            return ordered, [f"circular when: space={circle}; let conditions point one way"]
        ordered[ready] = waiting.pop(ready)
    return ordered, []


def assignments(axes: Axes, fixed: Mapping[str, Scalar]) -> list[dict[str, Scalar]]:
    """Returns every combination of finite axes, first axis slowest; an axis whose condition fails is absent."""
    partial: list[dict[str, Scalar]] = [{}]
    for name, domain in axes.items():
        values = [{name: value} for value in domain.values()]
        partial = [p | extra for p in partial for extra in (values if domain.active({**fixed, **p}) else [{}])]
    return partial


def sample(axes: Axes, fixed: Mapping[str, Scalar], rng: np.random.Generator) -> dict[str, Scalar]:
    """Draws one random assignment; an axis whose condition fails is absent."""
    assignment: dict[str, Scalar] = {}
    for name, domain in axes.items():
        if domain.active({**fixed, **assignment}):
            assignment[name] = domain.draw(rng)
    return assignment


def contains(axes: Axes, fixed: Mapping[str, Scalar], values: Mapping[str, Scalar]) -> bool:
    """Tells whether `values` assigns exactly the active axes, each a value of its domain."""
    active = [name for name, domain in axes.items() if domain.active({**fixed, **values})]
    return set(active) == set(values) and all(axes[name].contains(values[name]) for name in active)


def size(axes: Axes, fixed: Mapping[str, Scalar], limit: int = 100_000) -> int | None:
    """Returns the number of assignments; None for a continuous axis or more than `limit` combinations."""
    if not all(domain.finite for domain in axes.values()):
        return None
    # An upper bound: conditions only take axes away. Listing the combinations just to count them may be endless.
    bound = math.prod(len(domain.values()) for domain in axes.values())
    return len(assignments(axes, fixed)) if bound <= limit else None
