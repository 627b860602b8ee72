"""Scores of models that a paper prints and nobody trains here: one value per column, without seeds."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from analysis.ledger import UntrainedScore
from cse_train.results import Protocol

FIELD_DEFAULTS = {"case": "as is", "rule": ""}
"""Protocol field -> its value for scores that were stored before the field existed."""
MODEL_FIELD = "pooler"
"""Protocol field that belongs to the model, and may differ from the trained rows'."""


@dataclass(frozen=True)
class UntrainedModel:
    """One row of the paper with measured scores of the same model."""

    label: str
    """Label of the paper's row."""
    model: str
    """Name of the model that was scored, in a person's words."""
    values: Mapping[str, float]
    """Column -> measured score; a column may be absent."""
    protocols: Mapping[str, Protocol] = field(default_factory=dict)
    """Column -> protocol of the score."""

    def protocol(self) -> dict[str, object]:
        """Returns the protocol fields that all columns share."""
        each = list(self.protocols.values())
        return {
            name: value
            for name, value in (each[0].facts if each else {}).items()
            if all(field_text(protocol, name) == field_text(each[0], name) for protocol in each)
        }


def collect_scores(
    label: str, model: tuple[str, str], columns: Mapping[str, str], scores: Iterable[UntrainedScore]
) -> UntrainedModel:
    """Returns a row's scores from those of a ledger; the newest of each column counts.

    `model` is name and pooler; `columns` is column -> the suite under which the ledger stores its scores.
    """
    newest = {score.suite: score for score in scores if (score.model, score.pooler) == model}
    stored = {column: newest[suite] for column, suite in columns.items() if suite in newest}
    finite = {column: score for column, score in stored.items() if score.value is not None}
    return UntrainedModel(
        label,
        model[0],
        {column: score.value for column, score in finite.items() if score.value is not None},
        {column: score.protocol for column, score in finite.items()},
    )


def comparable(
    models: Sequence[UntrainedModel], trained: Mapping[str, Sequence[Protocol]]
) -> tuple[list[UntrainedModel], list[str]]:
    """Returns the models with the values under the protocol of the trained rows, and a line on each other value.

    `trained` is column -> the protocols of its trained rows.
    """
    compared, lines = [], []
    for model in models:
        unlike_fields = {
            column: _list_differing_fields(protocol, trained.get(column, ()))
            for column, protocol in model.protocols.items()
        }
        lines += [
            f"Not compared: {model.label} in {column}, whose {', '.join(names)} is not that of the trained rows; "
            "score them again under one protocol"
            for column, names in unlike_fields.items()
            if names
        ]
        values = {column: value for column, value in model.values.items() if not unlike_fields.get(column)}
        protocols = {column: protocol for column, protocol in model.protocols.items() if not unlike_fields[column]}
        compared.append(replace(model, values=values, protocols=protocols))
    return compared, lines


def _list_differing_fields(protocol: Protocol, trained: Sequence[Protocol]) -> list[str]:
    return [
        name
        for name in protocol.facts
        if name != MODEL_FIELD
        and any(field_text(peer, name) != field_text(protocol, name) for peer in trained if name in peer.facts)
    ]


def field_text(protocol: Protocol, name: str) -> str:
    """Returns a protocol field as JSON."""
    return json.dumps(protocol.facts.get(name, FIELD_DEFAULTS.get(name)))
