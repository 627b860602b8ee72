"""A leave-one-out ablation as a space: one configuration in full, and without each of its components."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from analysis.schema import digest
from cluster.keys import SEED
from cluster.space import Space, load_space
from cluster.space_parse import parse, parse_file
from cse_train.fields import ConfigError, Scalar

FULL = "full"
WITHOUT = "w/o "


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The configuration that is taken apart, and what is asked of its runs."""

    name: str
    """The run or sweep it comes from."""
    flat: Mapping[str, Scalar]
    """A run's flat configuration; its seed does not count."""
    profile: str
    seeds: Sequence[int]
    evaluate: Sequence[str] = ()


@dataclass(frozen=True)
class Ablation:
    """The space of an ablation, and the components that the configuration does not have."""

    space: Space
    absent: tuple[str, ...]
    raw: Mapping[str, Any]
    """The space as YAML's plain data."""

    def write(self) -> Path:
        """The space as a file that every command reads; written aside and renamed, and read back."""
        path = self.space.file
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}")
        aside.write_text(yaml.safe_dump(dict(self.raw), sort_keys=False, allow_unicode=True), encoding="utf-8")
        aside.replace(path)
        assert parse_file(path) == self.space, path
        return path


def ablation(origin: Origin, folder: Path) -> Ablation:
    """Leave out each component that the method's own space declares and the configuration has.

    The space's file lies in `folder` once it is written. Raises ConfigError for a method without components, and where
    none of them is in the configuration.
    """
    method = str(origin.flat["method"])
    changes = {name: one.changes(origin.flat) for name, one in load_space(method).components.items()}
    present = {name: settings for name, settings in changes.items() if settings}
    if not present:
        what = f"{', '.join(changes)} are off" if changes else "its space declares none"
        raise ConfigError([f"nothing to leave out: method={method}, {what}; add to `components:` of {method}.yaml"])
    raw = _raw(origin, method, present)
    space, problems = parse(raw, (folder / f"{raw['id']}.yaml").resolve())
    if space is None:
        raise ConfigError(problems)
    return Ablation(space, tuple(name for name in changes if name not in present), raw)


def _raw(origin: Origin, method: str, present: Mapping[str, Mapping[str, Scalar]]) -> dict[str, Any]:
    settings = {key: value for key, value in origin.flat.items() if key not in ("method", SEED)}
    listed = [{"label": WITHOUT + name, "set": dict(changes)} for name, changes in present.items()]
    name = re.sub(r"[^\w@.=-]+", "-", origin.name).strip("-")
    return {
        "version": 1,
        "id": f"ablate-{name}-{digest([method, settings, listed])[:6]}",
        "title": f"{method} without each of its components, from {origin.name}",
        "method": method,
        "profile": origin.profile,
        "seeds": list(origin.seeds),
        "evaluate": list(origin.evaluate),
        "set": settings,
        "cells": [{"label": FULL, "set": {}}, *listed],
    }
