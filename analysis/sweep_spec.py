"""What a sweep was recorded with: the description that a ledger and a bundle keep as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cse_train.results import Json, Settings

FIRST_MINIATURES = {"small": "wiki_small", "tiny": "wiki_tiny"}
"""Shipped profiles by their names of before -> today's: what says no encoder was recorded under a name of before."""
TURNED = "-"
"""Stands before the name of an imported metric whose sign is turned."""


@dataclass(frozen=True)
class SweepSpec:
    """A sweep's description; it is written as it was read, with what newer or older versions say beside all this."""

    stored: Json
    """As JSON, whose values `integrity` has looked at."""

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
        """The space's file, where it was read; None for imported runs."""
        return self.stored.get("file")

    @property
    def profile(self) -> str | None:
        """By its name of today."""
        name: str | None = self.stored.get("profile")
        return self._today(name) if self.profile_yaml is None else name

    def _today(self, profile: str | None) -> str | None:
        return profile if profile is None or "encoder" in self.stored else FIRST_MINIATURES.get(profile, profile)

    @property
    def settings(self) -> Settings:
        """What was given with --set."""
        return dict(self.stored.get("set", {}))

    @property
    def seeds(self) -> Sequence[int] | None:
        return self.stored.get("seeds")

    @property
    def blocked(self) -> Mapping[str, str]:
        """Label of a cell that lacks an input -> why; older versions keep the labels alone."""
        blocked = self.stored.get("blocked") or {}
        return blocked if isinstance(blocked, Mapping) else dict.fromkeys(blocked, "")

    @property
    def asked(self) -> int | None:
        """Runs that a search makes at most; None for a grid."""
        return self.stored.get("asked")

    @property
    def spent(self) -> Sequence[str]:
        """What was spent of each budget when a run was begun last, or at the end; a line for each."""
        return [str(line) for line in self.stored.get("spent") or ()]

    @property
    def margin(self) -> float | None:
        """How far apart rows may be that count as equal, in points; None for the usual."""
        return self.stored.get("margin")

    @property
    def looks(self) -> Sequence[int] | None:
        """Numbers of seeds at which the table is judged; None for one look at all seeds."""
        return self.stored.get("looks")

    @property
    def yaml(self) -> Json | None:
        """The space's file as it was, where it is the person's own."""
        return self.stored.get("yaml")

    @property
    def profile_yaml(self) -> Json | None:
        """The profile's file as it was, where it is the person's own; what it extends has its name of today."""
        written: Json | None = self.stored.get("profile_yaml")
        base = (written or {}).get("extends")
        return {**written, "extends": self._today(base)} if written and isinstance(base, str) else written

    @property
    def inputs(self) -> Mapping[str, Mapping[str, str | int]]:
        """Absolute path -> what it held: content hashes, as a run's identity has them."""
        return dict(self.stored.get("inputs", {}))

    @property
    def imported(self) -> str | None:
        """The tool that the runs come from; None for runs that were trained here."""
        return self.stored.get("imported")

    @property
    def score(self) -> str:
        """Of imported runs: the metric that is their best score, with what was done to it."""
        return str(self.stored.get("score", ""))

    @property
    def trainer(self) -> Mapping[str, object]:
        """The `trainer:` of its space; empty where methods of ours are trained."""
        trainer = (self.yaml or {}).get("trainer")
        return trainer if isinstance(trainer, Mapping) else {}

    @property
    def metric(self) -> str:
        """Of imported runs and of a program's: the name of the metric that is their best score; empty for ours."""
        declared = self.trainer.get("score")
        return str(declared.get("name")) if isinstance(declared, Mapping) else self.score.removeprefix(TURNED)

    @property
    def counts_parts(self) -> bool:
        """Whether its runs count parts of the whole in place of examples: a program reports the share that is done."""
        return bool(self.trainer) and not self.trainer.get("length")

    @property
    def is_turned(self) -> bool:
        """Whether the ledger, whose higher score wins, has its runs' scores with their sign turned."""
        declared = self.trainer.get("score")
        is_least = isinstance(declared, Mapping) and declared.get("direction") == "min"
        return is_least or self.score.startswith(TURNED)

    @property
    def says_better(self) -> bool:
        """Of imported runs: whether it was declared which score is the better one."""
        return "better" in self.stored

    @property
    def span(self) -> float | None:
        """Of imported runs: how wide the score's range is."""
        return self.stored.get("span")
