"""What a study has cost, by the ledger's own books."""

from collections.abc import Iterable
from dataclasses import dataclass

from analysis.study.study import Study


@dataclass(frozen=True)
class Spent:
    """Sums over all attempts of a study's runs, failed ones too."""

    runs: int
    """Finished runs, each signature once."""
    attempts: int
    examples: int
    seconds: float
    """Of the runs, one after the other: two that ran side by side count twice."""
    shared: int = 0
    """Of the runs, those that other tables of the same call have too."""

    def line(self) -> str:
        shared = f", {self.shared} of them shared with other tables here" if self.shared else ""
        return (
            f"{self.runs} runs{shared}; {self.attempts} attempts, {self.examples:,} training examples, "
            f"{self.seconds:.0f} s of runs in sum"
        )


def sum_cost(study: Study, elsewhere: Iterable[str] = ()) -> Spent:
    """The cost of a study; `elsewhere`: signatures that other tables of the same call have."""
    done = {run.signature for _, run in study.finished}
    attempts = [attempt for rows in study.attempts.values() for attempt in rows]
    return Spent(
        runs=len(done),
        attempts=len(attempts),
        examples=sum(attempt.examples or 0 for attempt in attempts),
        seconds=sum(attempt.seconds or 0.0 for attempt in attempts),
        shared=len(done & set(elsewhere)),
    )
