"""What an import cannot place, in plain lines: runs that did not end, runs without the score, values of no kind."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from analysis.tables.labels import some
from cse.importers import ForeignRun

NAMES_SHOWN = 8
"""Names in one line."""
TAKES = "--rename NAME=KEY takes one as a setting"


@dataclass(frozen=True)
class Left:
    """What is in a source beside what is taken."""

    unfinished: Mapping[str, int]
    """The tool's word for how they stand -> runs."""
    rest: Sequence[str]
    """Names of texts that are no settings."""
    metrics: Sequence[str]
    """Names of numbers beside the score, of runs of which no tool says what is a setting."""

    @classmethod
    def of(cls, runs: Sequence[ForeignRun], score: str, names: Collection[str]) -> "Left":
        """Of all runs; `names` are those that --rename takes."""
        used = {score, *names}
        rest = dict.fromkeys(name for run in runs for name in run.rest if name not in used)
        metrics = dict.fromkeys(name for run in runs if run.is_flat for name in run.metrics if name not in used)
        return cls(Counter(run.unfinished for run in runs if run.unfinished), list(rest), list(metrics))

    def states(self) -> str:
        """How many runs stand how."""
        return ", ".join(f"{count} {state}" for state, count in sorted(self.unfinished.items()))

    def lines(self, unscored: int, score: str) -> list[str]:
        """What was not taken, and what to do."""
        runs = [f"{sum(self.unfinished.values())} not finished ({self.states()})"] if self.unfinished else []
        runs += [f"{unscored} without {score}"] if unscored else []
        lines = [f"left out: runs: {', '.join(runs)}; import again when they have ended"] if runs else []
        lines += [f"left out: texts: {some(self.rest, NAMES_SHOWN)}; {TAKES}"] if self.rest else []
        return lines + ([f"kept as metrics: {some(self.metrics, NAMES_SHOWN)}; {TAKES}"] if self.metrics else [])
