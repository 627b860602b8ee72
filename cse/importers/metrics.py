"""Parses `--metric NAME[:max|min][:0-1]`: metrics to import, their better direction and their range."""

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
class DeclaredMetric:
    """A metric as declared with --metric: its name, better direction and width of range."""

    name: str
    better: Sense | None = None
    span: float | None = None


def read_metrics(words: Sequence[str]) -> list[DeclaredMetric]:
    """Returns the declared metrics in order; ConfigError for a malformed range, and for two metrics of one name."""
    metrics = [_read(word) for word in words]
    names = [metric.name for metric in metrics]
    repeated = list(dict.fromkeys(name for name in names if names.count(name) > 1))
    if repeated:
        raise ConfigError([f"two metrics of one name: metric={name}; give it once" for name in repeated])
    return metrics


def _read(word: str) -> DeclaredMetric:
    match = METRIC_WORDS.fullmatch(word.strip())
    if match is None:
        raise ConfigError([f"wrong metric: metric={word}; {METRIC_ADVICE}"])
    span = None
    if match["low"] is not None:
        span = float(match["high"]) - float(match["low"])
        if span <= 0:
            raise ConfigError([f"wrong range: metric={word} has no width; {METRIC_ADVICE}"])
    better: dict[str | None, Sense] = {"max": "higher", "min": "lower"}
    return DeclaredMetric(match["name"], better.get(match["end"]), span)
