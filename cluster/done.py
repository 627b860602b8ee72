"""Runs of a ledger by their settings: what is done of a plan whose inputs are not at hand to be hashed."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from cluster.signature import signatures
from cse_train.config import parse_run
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


def current(rows: Iterable[Row]) -> list[Row]:
    """The rows that today's code would give the signature that they have, in order; alike but for the seed, rows are
    looked at together."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        alike = settings_key(row.config, leave_out=SEED), json.dumps(dict(row.identity), sort_keys=True)
        groups.setdefault(alike, []).append(row)
    return [row for same in groups.values() for row in _signed_so(same)]


def _signed_so(same: Sequence[Row]) -> list[Row]:
    seeds = [int(row.config.get(SEED, 0)) for row in same]
    names = signatures(parse_run(same[0].config), same[0].identity, set(seeds))
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
