"""Rows of a paper whose models nobody trains, with our scores of them as the ledger has them."""

from collections.abc import Mapping, Sequence

from analysis.ledger import Ledger
from analysis.tables.spec import TableSpec
from analysis.tables.untrained import UntrainedModel, of_scores
from search_spaces.cells import ResolvedSpace

NOT_YET = "no score yet; `cse table {id} --untrained --data DIR` makes it"
NO_COUNTERPART = "its encoder has no counterpart at profile {profile}"


def models_of(resolved: ResolvedSpace, spec: TableSpec, ledger: Ledger | None) -> list[UntrainedModel]:
    """The rows with a model that is scored as it is; one without a score has no values."""
    models = {label: model for label, model in resolved.evaluated().items() if model}
    scores = ledger.untrained_scores() if ledger and models else []
    columns = {column: spec.scores.get(column, column) for column in spec.columns}
    return [of_scores(label, model.key, columns, scores) for label, model in models.items()]


def lacking(resolved: ResolvedSpace, models: Sequence[UntrainedModel], reasons: Mapping[str, str]) -> list[str]:
    """A line for each reason why a row's model has no score in a column that a suite of ours gives.

    `reasons`: label -> why, as far as the caller has tried to score it.
    """
    paper = resolved.space.paper
    if paper is None:
        return []
    values = {model.label: model.values for model in models}
    labels: dict[str, list[str]] = {}
    for row in paper.references:
        columns = paper.suites_of(row, resolved.space.evaluate) if row.evaluated else {}
        if any(column not in values.get(row.label, {}) for column in columns):
            left_out = NO_COUNTERPART.format(profile=resolved.profile.name)
            why = reasons.get(row.label, NOT_YET.format(id=resolved.space.id))
            labels.setdefault(why if row.label in values else left_out, []).append(row.label)
    return [f"Not scored: {', '.join(named)}: {why}" for why, named in labels.items()]
