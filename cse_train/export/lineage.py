"""Where an exported model comes from; read by listings, so that it needs no torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cse_train.fields import Json


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """What a ledger knows of a run, as plain values; all empty for a run outside one."""

    signature: str | None = None
    sweeps: Sequence[str] = ()
    cell: Mapping[str, object] = field(default_factory=dict)
    """The setting among those that the sweep compared."""
    seeds: Mapping[int, float | None] = field(default_factory=dict)
    """Seed -> best dev score, of the finished runs of this cell."""
    hashes: Mapping[str, object] = field(default_factory=dict)
    """Content hashes of encoder, tokenizer, corpus, dev set and what else the method reads."""
    provenance: Json = field(default_factory=dict)
    scores: Sequence[tuple[str, float, Mapping[str, object]]] = ()
    """(suite, value, protocol) of every stored score."""
