"""Options that `cse compare` and `cse gate` share: the models, the columns, and what counts as a difference."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from analysis.answers.baselines import start_of
from analysis.answers.judge import Scope, Terms
from analysis.answers.lookup import encoder_of
from analysis.answers.models import Model, model_of, require_two
from analysis.ledger import Ledger
from analysis.statistics.looks import FAMILY, TIE_MARGIN
from cse.cli import model_options, options
from cse.cli.model_options import find_folder
from cse_train.config import complete
from cse_train.fields import ConfigError
from cse_train.text.vector_files import names_vectors
from search_spaces.user_data import ENCODER

Columns = Annotated[list[str] | None, typer.Option(help="Columns to compare; comma-separated, repeatable (all).")]
Margin = Annotated[
    float,
    typer.Option(help="Points, of which a metric's range has a hundred: a difference that is surely smaller is a tie."),
]
Spans = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[COLUMN=]WIDTH",
        help="How wide a metric's range is, where nobody knows it: 1, 100; a tie is half of a hundredth of it.",
    ),
]
Level = Annotated[float, typer.Option(help="How often any word may be wrong; all columns share it.")]
Over = Annotated[
    Scope,
    typer.Option(
        help="What a word covers: other seeds on these sentences, other sentences for these models, or both; "
        "both falls back to seeds where no single pair or query is known."
    ),
]
Suites = Annotated[
    list[str] | None,
    typer.Option(
        help="First score what lacks these suites, by name or by a file of your own (docs/your_data.md); "
        "comma-separated, repeatable."
    ),
]

UNTRAINED = "untrained"
"""Model name for the encoder from which A's runs began, before any training."""
LENGTH_KEY = "train.dev_max_length"


@dataclass(frozen=True, kw_only=True)
class DifferenceOptions:
    """Columns to compare, and the margin, scales and level by which a difference is judged."""

    column: Columns = None
    margin: Margin = TIE_MARGIN
    scale: Spans = None
    level: Level = FAMILY
    over: Over = "both"

    def terms(self, looks: Sequence[int] | None = None) -> Terms:
        """Returns the terms of the verdicts. Raises TableError for an impossible margin, level or list of looks."""
        return Terms(margin=self.margin, family=self.level, looks=looks, over=self.over)

    def columns(self) -> list[str] | None:
        """Returns the chosen columns; None for all that both models have."""
        return words(self.column)

    def spans(self) -> dict[str, float]:
        """Returns column -> width that `--scale` declares, "" for every column. Raises ConfigError for what is no
        width."""
        widths = {}
        for word in self.scale or []:
            column, _, text = word.rpartition("=")
            try:
                widths[column] = options.positive(float(text), "scale") or 0.0
            except ValueError as error:
                raise ConfigError([f"wrong scale: scale={word}; write --scale 1, or --scale COLUMN=1"]) from error
        return widths


@dataclass(frozen=True, kw_only=True)
class ScoringOptions:
    """Suites and settings with which models that lack scores are evaluated."""

    suite: Suites = None
    data: options.Data = None
    senteval: options.SentEval = None
    pooler: model_options.Pooler = None
    max_length: model_options.MaxLength = None


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Profile, settings and data hash with which the space or sweep in a model's name is read."""

    profile: options.Profile = None
    settings: options.Set = None
    data_hash: options.DataHash = None

    def read_two(self, left: str, right: str, ledger: Ledger | None) -> tuple[Model, Model]:
        """Returns two models by their names. Raises ConfigError as `model_of` and `require_two` do."""
        settings = options.settings(self.settings)
        a = model_of(left, ledger, self.profile, settings, self.data_hash, find_folder)
        b = (
            find_untrained(a, ledger)
            if right == UNTRAINED
            else model_of(right, ledger, self.profile, settings, self.data_hash, find_folder)
        )
        require_two(a, b)
        return a, b


def find_untrained(model: Model, ledger: Ledger | None) -> Model:
    """Returns the encoder from which a model's runs began, with their pooler but without an MLP above [CLS].

    Raises ConfigError for a model that has no run of this ledger's own training, and for runs on word vectors.
    """
    settings = complete(model.runs[0].config) if model.runs else {}
    local_encoder = encoder_of(model.runs[0], ledger) if model.runs and ledger else None
    start, encoder, length = (
        start_of(settings),
        local_encoder or settings.get(ENCODER),
        settings.get(LENGTH_KEY),
    )
    if start is None or encoder is None or names_vectors(str(encoder)):
        line = f"no encoder to go back to: B={UNTRAINED} is that of runs with an encoder of ours, and A={model.name} is"
        raise ConfigError([f"{line} none; name a folder in its place"])
    pooler = "cls_no_mlp" if start == "cls" else start
    label = f"{encoder} without training, pooler {pooler}"
    max_length = length if type(length) is int else None
    return Model(UNTRAINED, label, folders=(Path(str(encoder)),), pooler=pooler, max_length=max_length)


def words(values: Sequence[str] | None) -> list[str] | None:
    """Returns the values of a repeatable option, split at commas, without duplicates; None where the option is not
    given."""
    return list(dict.fromkeys(word.strip() for part in values for word in part.split(","))) if values else None
