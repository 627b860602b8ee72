"""Cells that cannot be trained here: what they lack, where it is to be had, and the option that takes it."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cluster.plan.published_corpora import SENTEVAL, source_of
from cluster.plan.signature import Identity, identity
from cse_train.config import RunConfig
from cse_train.data_paths import DataPaths
from cse_train.evaluate.suites.registry import problems
from cse_train.fields import Scalar

STANDARD = ("wiki", "documents", "nli", "target:")
"""Beginnings of the corpora that any `--data` folder is expected to hold."""


@dataclass(frozen=True)
class Missing:
    """One input that a run lacks."""

    part: str
    """encoder, method (its generator, WordNet), corpus or dev."""
    line: str


def reason(missing: Sequence[Missing], run: RunConfig, axes: Sequence[str] = ()) -> str:
    """Why a cell cannot be trained, one line; `axes` are the settings that tell the table's rows apart."""
    lines = dict.fromkeys(f"{absent.line}{_where(absent, run, axes)}" for absent in missing)
    return "; ".join(lines)


@dataclass(frozen=True)
class IncompleteCell:
    """A cell of a table that lacks an input."""

    cell: Mapping[str, Scalar]
    """Axis -> value."""
    label: str
    """The cell in a person's words."""
    reason: str
    """What is absent, where to get it and which option gives its path."""
    signatures: tuple[str, ...] = ()
    """Its runs that the ledger does not have, by their settings."""


@dataclass
class Inputs:
    """Hashes of runs' inputs for one plan."""

    paths: DataPaths
    workers: int = 1
    expected: bool = False
    """Where no folder of data is given at all, assume what any such folder holds: what is counted then is what `--data`
    will give."""
    assumed: list[str] = dataclasses.field(default_factory=list)
    """What was assumed to be there, one line each."""

    def of(self, run: RunConfig) -> tuple[Identity, list[Missing], bool]:
        """The run's identity, with placeholders for what is absent; what it lacks; whether the identity is complete."""
        absent: dict[str, str] = {}
        hashes = identity(run, self.paths, self.workers, absent)
        missing = [Missing(part, line) for part, line in absent.items()]
        assumed = [lack for lack in missing if self._is_assumed(lack, run)]
        self.assumed += [lack.line for lack in assumed if lack.line not in self.assumed]
        return hashes, [lack for lack in missing if lack not in assumed], not absent

    def assumed_of(self, run: RunConfig) -> Identity:
        """The run's identity with placeholders for what is absent, which is not noted."""
        return identity(run, self.paths, self.workers, {})

    def unscorable(self, suites: Iterable[str]) -> dict[str, str]:
        """The suites whose data are not at hand, with the reason: runs go without their columns."""
        if self.expected and not self._given():
            return {}
        reasons = {name: problems([name], self.paths) for name in dict.fromkeys(suites)}
        return {name: lines[0] for name, lines in reasons.items() if lines}

    def _is_assumed(self, lack: Missing, run: RunConfig) -> bool:
        standard = lack.part == "dev" or (lack.part == "corpus" and run.train.corpus.startswith(STANDARD))
        return self.expected and not self._given() and standard and lack.line.startswith("missing data")

    def _given(self) -> bool:
        return any((self.paths.wiki, self.paths.documents, self.paths.nli, self.paths.pairs, self.paths.senteval))


def _where(lack: Missing, run: RunConfig, axes: Sequence[str]) -> str:
    if lack.line.startswith("missing encoder"):
        setting = lack.line.removeprefix("missing encoder: ").partition(";")[0]
        key, _, name = setting.partition("=")
        give = f"--profile FILE with `substitutions: {{{key}: {{{name}: DIR}}}}`" if key in axes else f"--set {key}=DIR"
        return f"; get it by `hf download {name}` where the hub can be reached, or give its folder by {give}"
    if lack.part == "corpus":
        source = source_of(run.train.corpus)
        return f"; get it from {source}" if source else ""
    if "senteval" in lack.line.lower():
        return f"; get it from {SENTEVAL}"
    return ""


def by_reason(incomplete: Sequence[IncompleteCell], most: int | None = None) -> list[str]:
    """One line for each reason with the cells that lack this input, `most` of them by name."""
    cells: dict[str, list[str]] = {}
    for cell in incomplete:
        cells.setdefault(cell.reason, []).append(cell.label)
    return [f"missing input: {_listed(labels, most or len(labels))}: {why}" for why, labels in cells.items()]


def _listed(labels: Sequence[str], most: int) -> str:
    more = f" and {len(labels) - most} more" if len(labels) > most else ""
    return ", ".join(labels[:most]) + more
