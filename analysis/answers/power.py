"""Says what a number of runs can find before they are trained: the gain that a judge would call better."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from analysis.answers.build import scale_of
from analysis.documents import HIDDEN
from analysis.ledger import RunRow
from analysis.run_state import RunState
from analysis.statistics.basics import Spread, mean_and_sd, pool_spreads
from analysis.statistics.looks import FAMILY, TIE_MARGIN, level, spend
from analysis.statistics.needed import POWER, smallest_gain
from analysis.tables.labels import number_of
from analysis.tables.results import DEV
from analysis.tables.spec import POINTS, MetricScale
from cse_train.config import complete
from cse_train.evaluate.metric_names import read_span
from cse_train.fields import ConfigError, Scalar
from search_spaces.cells import ResolvedSpace, setups
from search_spaces.user_data import ENCODER

CANDIDATES = (1, 3, 10)
"""Numbers of candidates for which a plan says what its runs can find."""
SAME = ("method", ENCODER, DEV)
"""Settings that runs share with a space's cells where their spread over seeds is taken for that of its runs."""


@dataclass(frozen=True)
class SeedSpread:
    """Standard deviation of one run's score over seeds, and where the figure comes from."""

    deviation: float
    source: str
    freedom: float = math.inf
    """Degrees of freedom of the deviation; infinite for one that was given."""


@dataclass(frozen=True, kw_only=True)
class Findable:
    """Smallest gain that a number of runs can find where so many candidates and one reference share them."""

    candidates: int
    level: float
    """Probability that the word on one candidate is wrong: an equal share of 5%."""
    seeds: int
    """Seeds of each candidate and of the reference."""
    smallest_gain: float | None
    """Smallest true gain over the reference that is called better in 80%; null with fewer than two seeds."""


@dataclass(frozen=True, kw_only=True)
class Power:
    """Smallest gains that a number of runs can find, reckoned before any is trained."""

    runs: int
    """Runs that are shared by the candidates and one reference."""
    deviation: float
    """Standard deviation of a score over seeds of one setting."""
    source: str
    """Origin of the deviation."""
    margin: float
    """Largest difference that is a tie, in the units of the deviation; 0 where the metric's range is not known."""
    power: float = POWER
    """Probability with which the smallest gain is found."""
    rows: Sequence[Findable]
    digits: int = field(default=2, metadata=HIDDEN)

    def lines(self) -> list[str]:
        """Returns a sentence for each number of candidates."""
        spread = f"{self.deviation:.{self.digits}f} ({self.source})"
        head = f"what {number_of(self.runs, 'run')} can find in {self.power:.0%}, at a deviation over seeds of {spread}"
        no_tie = "" if self.margin else ", no difference being a tie, as the metric's range is not known"
        return [f"{head}{no_tie}:", *(f"  {self._tell(row)}" for row in self.rows)]

    def _tell(self, row: Findable) -> str:
        shared = f"{number_of(row.candidates, 'candidate')}: {number_of(row.seeds, 'seed')} each, level {row.level:.3g}"
        if row.smallest_gain is None:
            return f"{shared}: finds nothing, as a word needs 2 seeds: {2 * (row.candidates + 1)} runs"
        return f"{shared}: finds a true gain of {row.smallest_gain:.{self.digits}f}"


def find_spread(setups: Iterable[Mapping[str, Scalar]], rows: Sequence[RunRow]) -> SeedSpread | None:
    """Returns the deviation over seeds of finished runs with the method, encoder and dev set of a setup, pooled over
    their settings; None where no setting of them has two seeds that differ."""
    wanted = {tuple(setup.get(name) for name in SAME) for setup in setups}
    scores: dict[str, list[float]] = defaultdict(list)
    fits: dict[tuple[str, str], bool] = {}
    for row in rows:
        if row.state != RunState.DONE or row.best is None or not math.isfinite(row.best):
            continue
        key = row.method, row.settings
        if key not in fits:
            settings = complete({"method": row.method, **row.config})
            fits[key] = tuple(settings.get(name) for name in SAME) in wanted
        if fits[key]:
            scores[repr((*key, sorted(row.identity.items())))].append(row.best)
    several = [values for values in scores.values() if len(values) > 1]
    spread = pool_spreads(Spread(mean_and_sd(values)[1] or 0.0, len(values) - 1) for values in several)
    if spread is None or not spread.sd:
        return None
    count = number_of(sum(map(len, several)), "run")
    return SeedSpread(spread.sd, f"{count} of {number_of(len(several), 'setting')} in the ledger", spread.freedom)


def find_scale(spaces: Sequence[ResolvedSpace], rows: Sequence[RunRow]) -> MetricScale:
    """Returns the scale of the spaces' dev scores, that of a user's program by its metric's name and its runs so far.

    Raises ConfigError for dev sets whose ranges differ, to which no one margin belongs.
    """
    scales = {}
    for space in spaces:
        for dev in {str(setup.get(DEV)) for setup in setups(space)}:
            values = [abs(row.best) for row in rows if row.best is not None and row.config.get(DEV) == dev]
            scales[dev] = MetricScale(span=read_span(dev, values)) if space.own_loop else scale_of(dev, values)
    if len({scale.point for scale in scales.values()}) > 1:
        raise ConfigError([f"unlike ranges: dev={', '.join(sorted(scales))}; plan their spaces one by one"])
    return next(iter(scales.values()), POINTS)


def what_runs_find(runs: int, spread: SeedSpread, margin: float = TIE_MARGIN, digits: int = 2) -> Power:
    """Returns what `runs` runs can find for each of CANDIDATES: all share the level equally, and each has as many seeds
    as the reference. Raises ConfigError for a deviation that is no positive number."""
    if not 0 < spread.deviation < math.inf:
        raise ConfigError([f"wrong deviation: deviation={spread.deviation:g}; give points above 0, such as 0.8"])
    rows = []
    for candidates in CANDIDATES:
        seeds, share = runs // (candidates + 1), level(1, family=spend(1, candidates, FAMILY))
        gain = smallest_gain(spread.deviation, seeds, share, margin)
        rows.append(Findable(candidates=candidates, level=share, seeds=seeds, smallest_gain=gain))
    return Power(runs=runs, deviation=spread.deviation, source=spread.source, margin=margin, rows=rows, digits=digits)
