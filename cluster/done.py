"""Runs of a ledger by their settings: what is done of a plan whose inputs are not at hand to be hashed."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from cluster.signature import signatures
from cse_train.config import RunConfig, parse_run
from cse_train.fields import Scalar


class Finished(Protocol):
    """What is read of `analysis.ledger.RunRow`."""

    @property
    def signature(self) -> str: ...
    @property
    def config(self) -> Mapping[str, Any]: ...
    @property
    def identity(self) -> Mapping[str, str | int]: ...


SEED = "train.seed"
Row = TypeVar("Row", bound=Finished)


def settings_key(flat: Mapping[str, Scalar], leave_out: str = "") -> str:
    """Settings as one string; `leave_out` names the one that does not count."""
    return json.dumps({key: value for key, value in flat.items() if key != leave_out}, sort_keys=True)


def by_settings(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Settings but the seed, as `settings_key` has them -> the rows with these."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(settings_key(row.config, leave_out=SEED), []).append(row)
    return groups


def current(alike: Iterable[Row], run: RunConfig | None = None) -> list[Row]:
    """Of rows whose settings differ in the seed at most, those that today's code would give the signature they have.

    `run`: these settings, where they were parsed before.
    """
    groups: dict[tuple[tuple[str, str | int], ...], list[Row]] = {}
    for row in alike:
        groups.setdefault(tuple(sorted(row.identity.items())), []).append(row)
    return [row for same in groups.values() for row in _signed_so(same, run or parse_run(same[0].config))]


def _signed_so(same: Sequence[Row], run: RunConfig) -> list[Row]:
    seeds = [int(row.config.get(SEED, 0)) for row in same]
    names = signatures(run, same[0].identity, set(seeds))
    return [row for row, seed in zip(same, seeds, strict=True) if names[seed] == row.signature]


def done_settings(rows: Iterable[Row], wanted: Iterable[Mapping[str, Scalar]]) -> set[str]:
    """Which settings, seed included, one of the finished `rows` has, on whatever data it was."""
    asked = {settings_key(flat) for flat in wanted}
    found: dict[str, list[Row]] = {}
    for row in rows:
        key = settings_key(row.config)
        if key in asked:
            found.setdefault(key, []).append(row)
    return {key for key, same in found.items() if current(same)}
