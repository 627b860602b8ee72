"""Origin of an exported model; read by listings, so it needs no torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cse_train.fields import Json


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """Facts that a ledger has about a run, as plain values; all empty for a run outside a sweep."""

    signature: str | None = None
    sweeps: Sequence[str] = ()
    cell: Mapping[str, object] = field(default_factory=dict)
    """Values that this run's cell has on the axes that the sweep compared."""
    seeds: Mapping[int, float | None] = field(default_factory=dict)
    """Seed -> best dev score, for the finished runs of this cell."""
    hashes: Mapping[str, object] = field(default_factory=dict)
    """Content hashes of encoder, tokenizer, corpus, dev set and what else the method reads."""
    provenance: Json = field(default_factory=dict)
    scores: Sequence[tuple[str, float, Mapping[str, object]]] = ()
    """Suite, value and protocol of every stored score."""
