"""Cost of a study, as recorded in the ledger."""

from collections.abc import Iterable
from dataclasses import dataclass

from analysis.study.study import Study


@dataclass(frozen=True)
class Spent:
    """Cost of a study, summed over all attempts of its runs, failed ones too."""

    runs: int
    """Number of finished runs, each signature once."""
    attempts: int
    examples: int
    seconds: float
    """Seconds of all attempts in sum: two that ran at the same time count twice."""
    shared: int = 0
    """Number of finished runs that other tables of the same call have too."""

    def line(self) -> str:
        shared = f", {self.shared} of them shared with other tables here" if self.shared else ""
        return (
            f"{self.runs} runs{shared}; {self.attempts} attempts, {self.examples:,} training examples, "
            f"{self.seconds:.0f} s of runs in sum"
        )


def sum_cost(study: Study, elsewhere: Iterable[str] = ()) -> Spent:
    """Returns the cost of a study; `elsewhere` holds signatures that other tables of the same call have."""
    finished = {run.signature for _, run in study.finished}
    attempts = [attempt for rows in study.attempts.values() for attempt in rows]
    return Spent(
        runs=len(finished),
        attempts=len(attempts),
        examples=sum(attempt.examples or 0 for attempt in attempts),
        seconds=sum(attempt.seconds or 0.0 for attempt in attempts),
        shared=len(finished & set(elsewhere)),
    )
