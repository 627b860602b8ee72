"""Runs, scores and values of runs for tests, by what of them matters there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analysis.ledger import Claim, Ledger
from analysis.tables.spec import RunValue
from cse_train.results import CosinesFile, Outcome, Point, Protocol, Score


def score_of(
    column: str,
    value: float,
    protocol: Mapping[str, object],
    file: str | Path | None = None,
    sha256: str | None = None,
) -> Score:
    """A score that is stored in this column, under a protocol that says no more than this."""
    kept = None if file is None else CosinesFile(Path(file), sha256)
    return Score(suite=column, metric="spearman", value=value, protocol=Protocol.read(protocol), file=kept)


def value_of(
    key: Mapping[str, Any], value: float, *, column: str, seed: int = 0, protocol: Any = None, **more: Any
) -> RunValue:
    """What the run of one seed of a row has in a column."""
    made = None if protocol is None else Protocol.read(protocol)
    return RunValue(key, seed, column, value, made, **more)


def point_of(examples: int, best: Any = 1.0, **more: Any) -> Point:
    """A dev point; what a test does not say of it does not matter there."""
    said = {"step": 1, "seconds": 1.0, "metrics": {}, "best": best, "best_examples": examples}
    return Point(**{"examples": examples, **said, **more})


def outcome_of(**said: Any) -> Outcome:
    """How a run ended; it was done, where a test does not say otherwise."""
    nothing = {"stopped": False, "examples": 0, "best": 1.0, "best_examples": 0, "seconds": 1.0, "points": ()}
    return Outcome(**{**nothing, **said})


def claim_run(
    ledger: Ledger,
    signature: str,
    config: Mapping[str, Any],
    *,
    method: str | None = None,
    seed: int = 0,
    owner: str = "me",
    identity: Mapping[str, str | int] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Claim:
    """The claim of a run that nobody holds; what a test does not say of it does not matter there."""
    about = {"method": method or config.get("method", "simcse"), "seed": seed, "owner": owner}
    claim = ledger.claim(signature, dict(config), **about, identity=identity or {}, provenance=provenance or {})
    assert claim is not None
    return claim


def end_run(ledger: Ledger, claim: Claim, state: Any = "done", *, examples: int = 10, **said: Any) -> None:
    """A claimed run ends; what a test does not say of its end does not matter there."""
    end = {"best": 1.0, "best_examples": examples, "seconds": 1.0, "folder": None}
    ledger.finish(claim, state, examples=examples, **{**end, **said})


def book_run(ledger: Ledger, signature: str, config: Mapping[str, Any], *, state: Any = "done", **said: Any) -> None:
    """A run that is claimed and ends; what a test does not say of it does not matter there."""
    about = {name: said.pop(name) for name in ("method", "seed", "owner", "identity", "provenance") if name in said}
    end_run(ledger, claim_run(ledger, signature, config, **about), state, **said)
