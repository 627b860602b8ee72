"""`--metric NAME[:max|min][:0-1]`: which numbers of the runs are taken, which of two values is the better one, and
how wide their range is."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.tables.spec import Sense
from cse_train.fields import ConfigError

METRIC_WORDS = re.compile(
    r"(?P<name>.+?)(:(?P<end>max|min))?(:(?P<low>-?\d+(\.\d+)?)-(?P<high>-?\d+(\.\d+)?))?", re.DOTALL
)
METRIC_ADVICE = "write --metric NAME, NAME:max, NAME:min or NAME:min:0-1"


@dataclass(frozen=True)
class Asked:
    """A metric as a person declares it."""

    name: str
    better: Sense | None = None
    span: float | None = None


def read_metrics(words: Sequence[str]) -> list[Asked]:
    """The metrics in the order given. ConfigError for a range that is none, and for two of one name."""
    metrics = [_read(word) for word in words]
    names = [metric.name for metric in metrics]
    twice = list(dict.fromkeys(name for name in names if names.count(name) > 1))
    if twice:
        raise ConfigError([f"two metrics of one name: metric={name}; give it once" for name in twice])
    return metrics


def _read(word: str) -> Asked:
    match = METRIC_WORDS.fullmatch(word.strip())
    if match is None:
        raise ConfigError([f"wrong metric: metric={word}; {METRIC_ADVICE}"])
    span = None
    if match["low"] is not None:
        span = float(match["high"]) - float(match["low"])
        if span <= 0:
            raise ConfigError([f"wrong range: metric={word} has no width; {METRIC_ADVICE}"])
    better: dict[str | None, Sense] = {"max": "higher", "min": "lower"}
    return Asked(match["name"], better.get(match["end"]), span)
