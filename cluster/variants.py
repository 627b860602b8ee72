"""Every cell of the papers' tables as a short run on real text: does each variant train, and what does it log?"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.render import MARKDOWN, aligned
from cluster.blocked import Inputs, name_of
from cluster.catalog import shipped
from cluster.cells import Cell, ResolvedSpace
from cluster.plan import PlannedRun
from cluster.signature import signature
from cluster.space import Space, load_spaces
from cse_train.config import DataPaths, RunConfig
from cse_train.fields import ConfigError, Scalar

STEPS = 200
"""Optimiser steps of a variant's run."""
EVALUATIONS = 2
"""Dev evaluations of a variant's run, at most."""
LOSS = "loss"
SHOWN = {
    "alignment": "alignment",
    "uniformity": "uniformity",
    "positive_cosine": "positive",
    "negative_cosine": "negative",
    "replaced_fraction": "replaced",
    "queue_rows": "queue",
}
"""What a step logs -> the head of its column."""
HEAD = ("space", "variant", "method", "state", "dev", "loss", *SHOWN.values())
TEXTS = 4
"""Columns set to the left."""


@dataclass(frozen=True)
class Variant:
    """One cell of one table: its run, or why there is none here."""

    space: str
    name: str
    method: str
    run: PlannedRun | None = None
    blocked: str = ""


def paper_spaces() -> list[Space]:
    """The papers' ablations: tables on the dev set that are run whole. Other tables only score such runs, or scale."""
    spaces = load_spaces(shipped() / "papers")
    return [s for s in spaces if "sts_dev" in s.evaluate and not (s.search and s.search.sampler != "grid")]


@dataclass(frozen=True, kw_only=True)
class Short:
    """How long variants train, and on what."""

    paths: DataPaths
    profile: str | None = None
    """Scale settings; None for each space's own."""
    overrides: Mapping[str, Scalar] = field(default_factory=dict)
    seeds: Sequence[int] = (0,)
    examples: int | None = None
    """Training examples of a run; None for `STEPS` steps."""
    workers: int = 1

    @property
    def sweep(self) -> str:
        """What the ledger calls these runs together."""
        settings = {**self.overrides, **({"examples": self.examples} if self.examples else {})}
        return " ".join([f"variants@{self.profile or 'own'}", *(f"{k}={v}" for k, v in sorted(settings.items()))])

    def variants(self, spaces: Iterable[Space]) -> list[Variant]:
        """Each cell times each seed; a cell whose inputs are absent is blocked, with the reason."""
        found: list[Variant] = []
        inputs = Inputs(self.paths, self.workers)
        for space in spaces:
            resolved = space.resolve(self.profile, self.overrides)
            found += [variant for cell in resolved.cells() for variant in self._of_cell(resolved, cell, inputs)]
            found += _left_out(resolved)
        return found

    def run(self, cell: Cell, seed: int) -> RunConfig:
        """The cell's run, cut short, with few evaluations."""
        run = cell.run(seed)
        examples = self.examples or STEPS * run.train.batch_size
        evaluations = min(EVALUATIONS, run.train.evaluations)
        train = dataclasses.replace(run.train, examples=examples, evaluations=evaluations)
        return dataclasses.replace(run, train=train)

    def _of_cell(self, resolved: ResolvedSpace, cell: Cell, inputs: Inputs) -> list[Variant]:
        space, method = resolved.space.id, str(cell.settings["method"])
        name = cell.label or name_of(cell.key)
        try:
            runs = [self.run(cell, seed) for seed in self.seeds]
        except ConfigError as error:
            return [Variant(space, name, method, blocked="; ".join(error.problems))]
        hashes, missing, _ = inputs.of(runs[0])
        if missing:
            return [Variant(space, name, method, blocked=missing[0].line)]
        key: dict[str, Scalar] = {"space": space, "variant": name}
        planned = (PlannedRun(signature(r, hashes), r, hashes, key, r.train.seed, self.sweep) for r in runs)
        return [Variant(space, name, method, run) for run in planned]


def _left_out(resolved: ResolvedSpace) -> list[Variant]:
    why = f"no counterpart in profile {resolved.profile.name}"
    named = [name for name, value in resolved.substitutions().items() if value is None]
    method = resolved.space.method or ""
    return [Variant(resolved.space.id, name.rpartition(".")[2], method, blocked=why) for name in named]


@dataclass(frozen=True)
class Ended:
    """How a variant's run stands in the ledger."""

    state: str
    reason: str
    metrics: Mapping[str, Any]
    """Of the last point of its curve."""


def report(variants: Sequence[Variant], ended: Mapping[str, Ended]) -> str:
    """A Markdown table, one line per variant and seed; then the reasons of those that are blocked or failed."""
    body = [[MARKDOWN.escape(entry) for entry in _line(variant, ended)] for variant in variants]
    why = {f"- {v.space} {v.name}: {reason}" for v in variants if (reason := _reason(v, ended))}
    return "\n".join([aligned(list(HEAD), body, TEXTS), "", *sorted(why)]).rstrip() + "\n"


def _line(variant: Variant, ended: Mapping[str, Ended]) -> list[str]:
    if variant.run is None:
        return [variant.space, variant.name, variant.method, "blocked", *[""] * (len(HEAD) - TEXTS)]
    found = ended.get(variant.run.signature, Ended("not run", "", {}))
    metrics, dev = found.metrics, variant.run.run.train.dev
    name = variant.name if variant.run.seed == 0 else f"{variant.name}, seed {variant.run.seed}"
    logged = [_number(metrics.get(key)) for key in SHOWN]
    return [variant.space, name, variant.method, found.state, _number(metrics.get(dev)), loss_parts(metrics), *logged]


def _reason(variant: Variant, ended: Mapping[str, Ended]) -> str:
    if variant.run is None:
        return f"blocked: {variant.blocked}"
    found = ended.get(variant.run.signature)
    return f"failed: {found.reason}" if found and found.state == "failed" else ""


def loss_parts(metrics: Mapping[str, Any]) -> str:
    """`0.35 (contrastive 0.34, rtd 1.21)`; parts are unweighted."""
    parts = {k.removeprefix("loss_"): v for k, v in metrics.items() if k.startswith("loss_")}
    told = ", ".join(f"{name} {_number(value)}" for name, value in parts.items())
    return f"{_number(metrics.get(LOSS))} ({told})" if told else _number(metrics.get(LOSS))


def _number(value: Any) -> str:
    """Three significant digits or more; empty for what is not logged."""
    if value is None:
        return ""
    if not math.isfinite(value):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"
