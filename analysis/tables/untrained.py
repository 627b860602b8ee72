"""Models that a paper prints and nobody trains here, scored as they are: one value a column, without seeds."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from analysis.ledger import UntrainedScore
from cse_train.results import Protocol

ABSENT = {"case": "as is", "rule": ""}
"""What scores were made with that were stored before these fields existed."""
TOLD_APART = "pooler"
"""The protocol field that belongs to the model, and may differ from that of the trained rows."""


@dataclass(frozen=True)
class UntrainedModel:
    """One row of the paper with our scores of the same model."""

    label: str
    """The row's."""
    model: str
    """What was scored, in a person's words."""
    values: Mapping[str, float]
    """Column -> ours; a column may be absent."""
    protocols: Mapping[str, Protocol] = field(default_factory=dict)
    """Column -> how it was scored."""

    def protocol(self) -> dict[str, object]:
        """The fields that all columns share."""
        each = list(self.protocols.values())
        return {
            name: value
            for name, value in (each[0].facts if each else {}).items()
            if all(field_text(protocol, name) == field_text(each[0], name) for protocol in each)
        }


def collect_scores(
    label: str, model: tuple[str, str], columns: Mapping[str, str], scores: Iterable[UntrainedScore]
) -> UntrainedModel:
    """A row's scores out of the ledger's; the newest of each column counts.

    `model`: name and pooler; `columns`: column -> the name under which the ledger keeps it.
    """
    newest = {score.suite: score for score in scores if (score.model, score.pooler) == model}
    chosen = {column: newest[suite] for column, suite in columns.items() if suite in newest}
    finite = {column: score for column, score in chosen.items() if score.value is not None}
    return UntrainedModel(
        label,
        model[0],
        {column: score.value for column, score in finite.items() if score.value is not None},
        {column: score.protocol for column, score in finite.items()},
    )


def comparable(
    models: Sequence[UntrainedModel], trained: Mapping[str, Sequence[Protocol]]
) -> tuple[list[UntrainedModel], list[str]]:
    """The models with the values that stand under the protocol of the trained rows, and a line on each other value.

    `trained`: column -> the protocols of its trained rows.
    """
    kept, lines = [], []
    for model in models:
        unlike = {
            column: _list_unlike_fields(protocol, trained.get(column, ()))
            for column, protocol in model.protocols.items()
        }
        lines += [
            f"Not compared: {model.label} in {column}, whose {', '.join(names)} is not that of the trained rows; "
            "score them again under one protocol"
            for column, names in unlike.items()
            if names
        ]
        values = {column: value for column, value in model.values.items() if not unlike.get(column)}
        protocols = {column: protocol for column, protocol in model.protocols.items() if not unlike[column]}
        kept.append(replace(model, values=values, protocols=protocols))
    return kept, lines


def _list_unlike_fields(protocol: Protocol, trained: Sequence[Protocol]) -> list[str]:
    return [
        name
        for name in protocol.facts
        if name != TOLD_APART
        and any(field_text(other, name) != field_text(protocol, name) for other in trained if name in other.facts)
    ]


def field_text(protocol: Protocol, name: str) -> str:
    """A field as JSON."""
    return json.dumps(protocol.facts.get(name, ABSENT.get(name)))
