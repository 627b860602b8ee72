"""Description of a sweep, as a ledger and a bundle store it in JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cse_train.results import Json, Settings

FIRST_MINIATURES = {"small": "wiki_small", "tiny": "wiki_tiny"}
"""Former name of a shipped profile -> its name today. Only descriptions without an encoder use former names."""
INVERTED_PREFIX = "-"
"""Prefix of an imported metric's name that marks a metric whose sign was inverted on import."""


@dataclass(frozen=True)
class Confirmation:
    """Question of a sweep of `cse confirm`, whose runs have fresh seeds, which took no part in a choice."""

    sweep: str
    """Sweep whose cell is confirmed."""
    cell: str
    """Cell of that sweep, as a command line names it."""
    reference: str
    """Model with which the cell is compared, as a command line names it."""
    seeds: Sequence[int]
    """Seeds of both sides; no earlier run of either side had one of them."""
    axes: Sequence[str] = ()
    """Settings that the spaces of the two sides vary; the comparison is meant to differ in them."""


@dataclass(frozen=True)
class SweepSpec:
    """Description of a sweep. Keys that this version does not know are kept, so that it is written as it was read."""

    stored: Mapping[str, Any]
    """Description as JSON; `integrity` has checked its values."""

    def __bool__(self) -> bool:
        return bool(self.stored)

    @property
    def title(self) -> str:
        return str(self.stored.get("title", ""))

    @property
    def space(self) -> str | None:
        """ID of the space, or the name under which runs were imported."""
        return self.stored.get("space")

    @property
    def file(self) -> str | None:
        """Path of the space's file; None for imported runs."""
        return self.stored.get("file")

    @property
    def profile(self) -> str | None:
        """Name of the profile; a shipped profile that was renamed since has its name of today."""
        name: str | None = self.stored.get("profile")
        return self._today(name) if self.profile_yaml is None else name

    def _today(self, profile: str | None) -> str | None:
        return profile if profile is None or "encoder" in self.stored else FIRST_MINIATURES.get(profile, profile)

    @property
    def settings(self) -> Settings:
        """Settings that the command line gave with --set."""
        return dict(self.stored.get("set", {}))

    @property
    def seeds(self) -> Sequence[int] | None:
        return self.stored.get("seeds")

    @property
    def blocked(self) -> Mapping[str, str]:
        """Label of a cell that cannot run for want of an input -> the reason; older versions stored no reasons."""
        blocked = self.stored.get("blocked") or {}
        return blocked if isinstance(blocked, Mapping) else dict.fromkeys(blocked, "")

    @property
    def asked(self) -> int | None:
        """Largest number of runs of a search; None for a grid."""
        return self.stored.get("asked")

    @property
    def spent(self) -> Sequence[str]:
        """Lines that say how much of each budget was spent when the last run began, or at the sweep's end."""
        return [str(line) for line in self.stored.get("spent") or ()]

    @property
    def margin(self) -> float | None:
        """Largest difference, in points, at which two rows count as equal; None for the default."""
        return self.stored.get("margin")

    @property
    def looks(self) -> Sequence[int] | None:
        """Numbers of seeds at which the table is judged (interim analyses); None for one analysis with all seeds."""
        return self.stored.get("looks")

    @property
    def confirms(self) -> Confirmation | None:
        """Question that the sweep answers on fresh seeds; None for every sweep that `cse confirm` did not make.

        Runs of a confirmation were not picked: their cells are ranked by nothing.
        """
        stored = self.stored.get("confirms")
        if not isinstance(stored, Mapping):
            return None
        sweep, cell, reference = (str(stored.get(name, "")) for name in ("sweep", "cell", "reference"))
        return Confirmation(sweep, cell, reference, stored.get("seeds") or (), stored.get("axes") or ())

    @property
    def yaml(self) -> Json | None:
        """Content of the space's file when recorded, for a user's own space; None for a shipped space."""
        return self.stored.get("yaml")

    @property
    def profile_yaml(self) -> Json | None:
        """Content of the profile's file when recorded, for a user's own profile; a renamed base has its new name."""
        written: Json | None = self.stored.get("profile_yaml")
        base = (written or {}).get("extends")
        return {**written, "extends": self._today(base)} if written and isinstance(base, str) else written

    @property
    def inputs(self) -> Mapping[str, Mapping[str, str | int]]:
        """Absolute path of each input -> its content hashes, as in a run's identity."""
        return dict(self.stored.get("inputs", {}))

    @property
    def imported(self) -> str | None:
        """Name of the tool from which the runs were imported; None for runs that were trained here."""
        return self.stored.get("imported")

    @property
    def score(self) -> str:
        """Metric that became the best score of imported runs, with the changes made on import; empty for others."""
        return str(self.stored.get("score", ""))

    @property
    def trainer(self) -> Mapping[str, object]:
        """Section `trainer:` of the space, for runs of a user's program; empty for this project's own methods."""
        trainer = (self.yaml or {}).get("trainer")
        return trainer if isinstance(trainer, Mapping) else {}

    @property
    def metric(self) -> str:
        """Name of the metric that is the best score of imported runs or of a user's program; empty for own methods."""
        declared = self.trainer.get("score")
        return str(declared.get("name")) if isinstance(declared, Mapping) else self.score.removeprefix(INVERTED_PREFIX)

    @property
    def counts_parts(self) -> bool:
        """True if runs count parts of their whole in place of examples: a user's program reports the share done."""
        return bool(self.trainer) and not self.trainer.get("length")

    @property
    def is_turned(self) -> bool:
        """True if scores are stored with inverted sign: the lower metric is better, and the ledger maximises."""
        declared = self.trainer.get("score")
        is_least = isinstance(declared, Mapping) and declared.get("direction") == "min"
        return is_least or self.score.startswith(INVERTED_PREFIX)

    @property
    def says_better(self) -> bool:
        """True if the import of the runs declared which direction of the score is better."""
        return "better" in self.stored

    @property
    def span(self) -> float | None:
        """Width of the score's range, for imported runs that declare it."""
        return self.stored.get("span")
