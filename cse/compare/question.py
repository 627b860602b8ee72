"""What `cse compare` and `cse gate` are both asked: which models, in which columns, and what counts as a difference."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from analysis.ledger import Ledger
from analysis.statistics.looks import FAMILY
from analysis.tables.directions import TIE_MARGIN, Terms
from cse.cli import options
from cse.tables.models import Model, model_of, require_two
from cse_train.backbone.folders import list_encoders
from cse_train.fields import ConfigError

Columns = Annotated[
    list[str] | None,
    typer.Option("--column", help="Columns to compare; comma-separated, repeatable (all).", show_default=False),
]
Margin = Annotated[
    float,
    typer.Option(help="Points, of which a metric's range has a hundred: a difference that is surely smaller is a tie."),
]
Spans = Annotated[
    list[str] | None,
    typer.Option(
        "--scale",
        metavar="[COLUMN=]WIDTH",
        help="How wide a metric's range is, where nobody knows it: 1, 100; a tie is half of a hundredth of it.",
        show_default=False,
    ),
]
Level = Annotated[float, typer.Option(help="How often any word may be wrong; all columns share it.")]


@dataclass(frozen=True, kw_only=True)
class DifferenceOptions:
    """Which columns are compared, and what counts as a difference."""

    column: Columns = None
    margin: Margin = TIE_MARGIN
    scale: Spans = None
    level: Level = FAMILY

    def terms(self, looks: Sequence[int] | None = None) -> Terms:
        """TableError for a margin and for looks that cannot be."""
        return Terms(margin=self.margin, family=self.level, looks=looks)

    def columns(self) -> list[str] | None:
        """None for all that both models have."""
        return words(self.column)

    def spans(self) -> dict[str, float]:
        """Column -> the width that `--scale` declares, under "" for every column; ConfigError for what is no width."""
        widths = {}
        for word in self.scale or []:
            column, _, text = word.rpartition("=")
            try:
                widths[column] = options.positive(float(text), "scale") or 0.0
            except ValueError as error:
                raise ConfigError([f"wrong scale: scale={word}; write --scale 1, or --scale COLUMN=1"]) from error
        return widths


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """How the space or the sweep in a model's name is read."""

    profile: options.Profile = None
    settings: options.Set = None
    data_hash: options.DataHash = None

    def read_two(self, left: str, right: str, ledger: Ledger | None) -> tuple[Model, Model]:
        """The two models of these names. ConfigError as of `model_of` and `require_two`."""
        given, encoders = options.settings(self.settings), list_encoders()
        a, b = (model_of(name, ledger, self.profile, given, self.data_hash, encoders) for name in (left, right))
        require_two(a, b)
        return a, b


def words(given: Sequence[str] | None) -> list[str] | None:
    """The words of an option that takes several, also with commas; None where it is not given."""
    return list(dict.fromkeys(word.strip() for part in given for word in part.split(","))) if given else None
