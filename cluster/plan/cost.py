"""Estimates the cost of runs: training examples, seconds from measured throughput, disk from measured checkpoints."""

import operator
import os
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from analysis.ledger import RunRow
from analysis.run_state import RunState
from cse_train.config import RunConfig

REFERENCE_ENCODER = "words-l4-h128"
"""Name of the shipped encoder of the shape of the runs behind EXAMPLES_PER_SECOND: 4 layers of width 128."""
REFERENCE_PARAMETERS = 1.9
"""Millions of parameters of the encoder behind those figures and CHECKPOINT_BYTES, whose vocabulary was smaller."""
EXAMPLES_PER_SECOND = {
    **{"simcse": 251, "esimcse": 211, "dcpcse": 296, "diffcse": 95, "d2cse": 112, "declutr": 17},
    **{"flow": 125, "whitening": 120},
    **{"ct": 320, "mirrorbert": 200, "consert": 245, "sgopt": 308, "isbert": 318},
    **{"sbert": 181, "promptbert": 126, "cmlm": 121, "infersent": 216},
}
"""Method -> training examples per second of one run with the reference encoder, dev evaluations included.

One core of two, batch 64 (DeCLUTR 8), 20 dev evaluations of STS-B: means over three or more runs of each on 2026-11-21,
two at a time, on a shared AMD EPYC. Flow and whitening: a run each, whose examples are three sentences. The last two
lines have no such runs yet: SimCSE's figure times the ratio of CPU seconds, some steps of each in turn.
"""
UNMEASURED = statistics.median(EXAMPLES_PER_SECOND.values())
"""Examples per second of a method that is not measured, such as a user's, until its ledger has finished runs of it."""
CHECKPOINT_BYTES = {
    "simcse": 30.9e6,
    "esimcse": 38.7e6,
    "dcpcse": 15.8e6,
    "diffcse": 57.1e6,
    "d2cse": 16.7e6,
    "declutr": 30.9e6,
    "flow": 16.1e6,
    "whitening": 15.7e6,
    "ct": 53.7e6,
    "mirrorbert": 30.9e6,
    "consert": 30.9e6,
    "sgopt": 33.6e6,
    "isbert": 31.7e6,
    "sbert": 30.6e6,
    "promptbert": 30.8e6,
    "cmlm": 33.9e6,
    "infersent": 25.9e6,
}
"""Method -> bytes that a reference run leaves on disk; the last nine by counts of parameters and moments."""
ENCODER_SHAPES = {
    "words-l1-h64": (1, 64, 1.8),
    "words-l2-h128": (2, 128, 3.9),
    "words-l4-h128": (4, 128, 4.3),
    "google/bert_uncased_L-4_H-512_A-8": (4, 512, 29),
    "bert-base-uncased": (12, 768, 110),
    "bert-large-uncased": (24, 1024, 335),
    "roberta-base": (12, 768, 125),
    "roberta-large": (24, 1024, 355),
    "sentence-transformers/bert-base-nli-mean-tokens": (12, 768, 110),
    "sentence-transformers/roberta-base-nli-mean-tokens": (12, 768, 125),
    "distilbert-base-uncased": (6, 768, 66),
    "distilroberta-base": (6, 768, 82),
    "glove-6b-50d": (1, 256, 1.9),
    "glove.840B.300d.txt": (1, 2048, 47),
    "crawl-300d-2M.vec": (1, 2048, 47),
}
"""Encoder -> (layers, width, millions of parameters); for word vectors of InferSent's LSTM and classifier."""
COST_RULE = "layers x width^2"
CARD_ENCODER = "bert-base-uncased"
CARD_EXAMPLES_PER_SECOND = {"fp32": 1195, "bf16": 2412}
"""Precision -> SimCSE examples per second at `CARD_ENCODER`'s size, one run alone on an H100.

Steps of 64 (docs/results/performance.md, gpu); fp32 without TF32. Other precisions count as bf16.
"""
MOST_ON_A_CARD = 5942
"""Upper bound of examples per second on a GPU: a run of the small words-l2-h128 alone on an H200."""


@dataclass(frozen=True)
class Cost:
    """Cost of some runs; those whose encoder or length is not known count in `unknown` and add no seconds."""

    examples: int = 0
    core_seconds: float = 0.0
    disk_bytes: int = 0
    unknown: int = 0
    card_seconds: float = 0.0
    """Seconds of all runs on one GPU, with one run at a time."""

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*map(operator.add, vars(self).values(), vars(other).values()))

    def times(self, count: int) -> "Cost":
        return Cost(*(value * count for value in vars(self).values()))


@dataclass(frozen=True)
class Rates:
    """Throughput by (method, encoder), from a ledger's own runs where it has some."""

    measured: Mapping[tuple[str, str], float] = field(default_factory=dict)
    runs: int = 0
    workers: int = 1

    def seconds(self, run: RunConfig) -> float | None:
        """Returns the seconds of one run on `workers` cores; None where its encoder or length is unknown."""
        examples = run.train.examples
        if not isinstance(examples, int):
            return None
        encoder = str(run.flat().get("train.encoder"))
        measured = self.measured.get((run.method, encoder))
        if measured:
            return examples / measured
        if encoder not in ENCODER_SHAPES:
            return None
        # By arithmetic relative to the reference's; small encoders are bound by other things and count 1.
        scale = max(1.0, _arithmetic(encoder) / _arithmetic(REFERENCE_ENCODER))
        shipped = EXAMPLES_PER_SECOND.get(run.method, UNMEASURED)
        return examples * scale / self.measured.get((run.method, REFERENCE_ENCODER), shipped)

    def card_seconds(self, run: RunConfig) -> float:
        """Returns the seconds of one run alone on a GPU, 0 where unknown; ledgers may have other machines' times."""
        encoder, examples = str(run.train.encoder), run.train.examples
        if encoder not in ENCODER_SHAPES or not isinstance(examples, int):
            return 0.0
        rate = CARD_EXAMPLES_PER_SECOND.get(run.train.precision, CARD_EXAMPLES_PER_SECOND["bf16"])
        each = max(_arithmetic(encoder) / _arithmetic(CARD_ENCODER) / rate, 1 / MOST_ON_A_CARD)
        return examples * each * EXAMPLES_PER_SECOND["simcse"] / EXAMPLES_PER_SECOND.get(run.method, UNMEASURED)

    def cost(self, run: RunConfig) -> Cost:
        """Returns the cost of one run; an unknown encoder counts as many bytes as the reference encoder.

        A method with a training loop of its own (`SHARED` is set) counts for its time alone.
        """
        seconds, size = self.seconds(run), CHECKPOINT_BYTES.get(run.method, max(CHECKPOINT_BYTES.values()))
        *_, parameters = ENCODER_SHAPES.get(run.train.encoder, (4, 128, REFERENCE_PARAMETERS))
        scaled = round(size * parameters / REFERENCE_PARAMETERS)
        cores = self.workers * (seconds or 0.0)
        if run.options.SHARED is not None:
            return Cost(0, cores, 0, int(seconds is None))
        examples = run.train.examples if isinstance(run.train.examples, int) else 0
        return Cost(examples, cores, scaled, int(seconds is None), self.card_seconds(run))

    def wall(self, cost: Cost) -> float:
        """Returns the wall-clock seconds of a cost on this machine, with one run on every core."""
        return cost.core_seconds / max(1, os.cpu_count() or 1)

    def source(self, own_loops: bool = False) -> str:
        """Returns where the seconds come from, in one line; `own_loops`: all runs have a training loop of their own."""
        if own_loops:
            return f"time on {os.cpu_count() or 1} cores, one run a core, by the finished runs of this ledger alone"
        shipped = "runs of 2026-11-21"
        measured = f"{self.runs} finished runs of this ledger, else of " if self.runs else ""
        cores = os.cpu_count() or 1
        return (
            f"time on {cores} cores, one run a core, by the examples per second of {measured}{shipped} "
            f"(4 layers of width 128); other encoders by {COST_RULE}, methods without such runs by the median; "
            "without the scoring of suites"
        )


def rates(rows: Sequence[RunRow], workers: int = 1) -> Rates:
    """Measures throughput on the finished runs among `rows`."""
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    timed = [row for row in rows if row.state == RunState.DONE and row.examples and row.seconds]
    for row in timed:
        both = sums[row.method, str(row.config.get("train.encoder"))]
        both[0] += row.examples or 0
        both[1] += row.seconds or 0.0
    return Rates({key: examples / seconds for key, (examples, seconds) in sums.items()}, len(timed), workers)


def _arithmetic(encoder: str) -> int:
    layers, width, _ = ENCODER_SHAPES[encoder]
    return layers * width**2
