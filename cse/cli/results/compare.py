"""`cse compare`: two models side by side, by seeds and by sentence pairs."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import typer

from analysis.ledger import Ledger
from analysis.render.formats import render
from analysis.render.markup import MARKDOWN, plain_text
from analysis.render.markup import aligned as markdown
from analysis.render.signs import signed
from analysis.render.verdicts import LACKING
from analysis.statistics.looks import FAMILY
from analysis.statistics.needed import MOST
from analysis.study.comparison import ColumnComparison, compared
from analysis.study.pair_comparison import Disagreement, PairComparison, compared_by_pairs
from analysis.tables.aggregate import Row, Table
from analysis.tables.columns import Interval
from analysis.tables.directions import MARGIN, Terms
from analysis.tables.spec import TableSpec
from cse.cli import ledgers, options, screen
from cse.cli.loader import Deferred
from cse.cli.results.table import FormatOption
from cse.tables.comparison import Gathered, gathered, suites_to_score
from cse.tables.models import Model, model_of, require_two
from cse_train.backbone.folders import shipped_names
from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import Pairs, load_pairs
from cse_train.fields import ConfigError, Scalar

scoring = Deferred("cse.experiments.compared")

NAME_HELP = "a run (its signature), SPACE:CELL or SWEEP:CELL with all its seeds, several with commas, a model's folder"
First = Annotated[str, typer.Argument(metavar="A", help=f"A model: {NAME_HELP}.")]
Second = Annotated[str, typer.Argument(metavar="B", help="The model that A is compared with, named alike.")]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", help="Columns to compare; comma-separated, repeatable (all).", show_default=False),
]
Margin = Annotated[float, typer.Option(help="Points: a difference that is surely smaller is a tie.")]
Level = Annotated[float, typer.Option(help="How often any word may be wrong; all columns share it.")]
Top = Annotated[int, typer.Option(min=0, help="Sentence pairs to list that A and B rank most differently.")]
Suites = Annotated[
    list[str] | None,
    typer.Option("--suite", help="First score what lacks these suites; comma-separated.", show_default=False),
]
WIDE = 100
"""Columns of a terminal that has room for the last column."""
TEXT = 160
"""Characters shown of a text."""
SEEDS_ALONE = "One seed on a side: only the bootstrap over sentence pairs speaks, and it does not cover other seeds."


@dataclass(frozen=True)
class Comparison:
    """Two models, what they have in common, and what is said of it."""

    left: Model
    right: Model
    terms: Terms
    gathered: Gathered
    columns: Sequence[ColumnComparison]
    pairs: Sequence[PairComparison]
    texts: Mapping[str, Pairs]
    """Column -> the set's texts, where they are at hand."""

    def notes(self) -> list[str]:
        """What holds for all numbers, for people."""
        sure = (
            f"{100 * (1 - self.columns[0].level):.4g}% intervals; a tie is surely within ±{self.terms.margin:g} points"
        )
        shared = ", which the columns share" if len(self.columns) > 1 else ""
        lines = [f"{sure}; any word is wrong at most {100 * self.terms.family:.4g}% of the time{shared}"]
        if min(self._seeds()) < 2:
            lines.append(SEEDS_ALONE if self.pairs else SEEDS_ALONE.replace("only", "no cosines are kept, so not even"))
        unread = self.gathered.unread
        more = f"; and {len(unread) - LACKING} more like these" if len(unread) > LACKING else ""
        aside = [f"not compared by sentence pairs: {'; '.join(unread[:LACKING])}{more}"] if unread else []
        return [*lines, *self.gathered.notes, *aside]

    def _seeds(self) -> list[int]:
        return [entry.n for column in self.columns for entry in (column.left, column.right)]


def compare(
    a: First,
    b: Second,
    column: Columns = None,
    margin: Margin = MARGIN,
    level: Level = FAMILY,
    top: Top = 5,
    suite: Suites = None,
    profile: options.Profile = None,
    settings: options.Set = None,
    data_hash: options.DataHash = None,
    data: options.Data = None,
    senteval: options.SentEval = None,
    pooler: options.Pooler = None,
    max_length: options.MaxLength = None,
    ledger: ledgers.LedgerUrl = None,
    storage: options.Storage = None,
    form: FormatOption = None,
) -> None:
    """Compare two models: differences with intervals over seeds, and over sentence pairs where cosines are kept."""
    terms = Terms(margin=margin, family=level)
    paths, opened = options.data_paths(data, None, senteval), ledgers.existing_ledger(ledger, storage)
    models = named([a, b], opened, profile, options.settings(settings), data_hash)
    lacking = words(suite), words(column)
    left, right = (
        _scored(model, other, *lacking, opened, paths, pooler, max_length) for model, other in (models, models[::-1])
    )
    common = gathered(left, right, opened, words(column))
    pairs = compared_by_pairs(common.cosines, terms, columns=len(common.columns), top=top)
    texts = _texts(pairs, common, paths)
    made = Comparison(left, right, terms, common, compared(common.columns, terms), pairs, texts)
    if form == "json":
        print(json.dumps(as_dict(made), indent=1, ensure_ascii=False, allow_nan=False))
    elif form in (None, "md"):
        print(_text(made, screen.width() if form is None else None))
    else:
        print(render(_table(made), form), end="")


def named(
    names: Sequence[str],
    ledger: Ledger | None,
    profile: str | None,
    settings: Mapping[str, Scalar],
    data_hash: str | None,
) -> tuple[Model, Model]:
    """The two models. ConfigError as of `model_of` and `require_two`."""
    left, right = (model_of(name, ledger, profile, settings, data_hash, shipped_names()) for name in names)
    require_two(left, right)
    return left, right


def words(given: Sequence[str] | None) -> list[str] | None:
    """The words of an option that takes several, also with commas; None where it is not given."""
    return list(dict.fromkeys(word.strip() for part in given for word in part.split(","))) if given else None


def _scored(
    model: Model,
    other: Model,
    suites: Sequence[str] | None,
    columns: Sequence[str] | None,
    ledger: Ledger | None,
    paths: DataPaths,
    pooler: str | None,
    max_length: int | None,
) -> Model:
    """The model with the scores that the comparison needs: those of a folder, and of runs those that are asked for."""
    if model.folder is not None:
        names = suites or columns or suites_to_score(other, ledger)
        screen.note(f"scoring {model.name}")
        return replace(model, scores=scoring.score_folder(model.folder, names, paths, pooler, max_length))
    if suites and ledger is not None:
        screen.note(f"scoring {len(model.runs)} runs of {model.name}")
        scoring.score_runs(model, suites, ledger, paths)
    return model


def _texts(pairs: Sequence[PairComparison], common: Gathered, paths: DataPaths) -> dict[str, Pairs]:
    """The sets whose disagreements are listed, as far as they are at hand and are those that were scored."""
    texts = {}
    for column in (entry.column for entry in pairs if entry.disagreements):
        try:
            loaded = load_pairs(column, paths)
        except ConfigError:
            continue
        if loaded.content_hash == common.data.get(column):
            texts[column] = loaded
    return texts


def as_dict(made: Comparison) -> dict[str, Any]:
    """Everything, for programs."""
    return {
        "A": model_dict(made.left),
        "B": model_dict(made.right),
        "margin": made.terms.margin,
        "level": made.terms.family,
        "columns": [column_dict(column) for column in made.columns],
        "pairs": [_pairs_dict(pairs, made.texts.get(pairs.column)) for pairs in made.pairs],
        "notes": [*made.gathered.notes, *made.gathered.unread],
    }


def model_dict(model: Model) -> dict[str, Any]:
    runs = [{"signature": run.signature, "seed": run.seed} for run in model.runs]
    return {"name": model.name, "label": model.label, "folder": model.folder and str(model.folder), "runs": runs}


def column_dict(column: ColumnComparison) -> dict[str, Any]:
    """A column with its single values; a model without seeds has none."""
    facts = {name: value for name, value in asdict(column).items() if name not in ("left", "right", "collapsed")}
    sides = {
        name: {"n": entry.n, "mean": entry.mean, "sd": entry.sd, "values": list(entry.values), "collapsed": fallen}
        | {"seeds": [seed for seed in entry.seeds if seed >= 0]}
        for name, entry, fallen in zip("AB", (column.left, column.right), column.collapsed, strict=True)
    }
    return {**facts, **sides}


def _pairs_dict(pairs: PairComparison, texts: Pairs | None) -> dict[str, Any]:
    listed = [
        asdict(pair)
        | {"nearer": pair.nearer}
        | ({"texts": [texts.left[pair.index], texts.right[pair.index]]} if texts else {})
        for pair in pairs.disagreements
    ]
    return asdict(pairs) | {"difference": pairs.difference, "disagreements": listed}


HEAD = ["column", "A", "B", "A - B", "interval", "seeds", "A is", "needs"]


def _text(made: Comparison, width: int | None) -> str:
    """All of it, for a terminal of this width or as Markdown."""
    bold: Callable[[str], str] = screen.bold if width else (lambda text: f"**{MARKDOWN.escape(text)}**")
    parts = [_bullets([f"A: {_who(made.left)}", f"B: {_who(made.right)}"], width)]
    rows = [_row(column) for column in made.columns]
    parts += [_part(HEAD, rows, [i in (1, 2, 3) for i in range(len(HEAD))], width)]
    parts.append(_bullets([f"{column.column}: {column.word}; {column.reason}" for column in made.columns], width))
    if made.pairs:
        head = ["set", "pairs", "A", "B", "A - B", "interval", "A is"]
        body = [_pair_row(pairs) for pairs in made.pairs]
        parts.append(bold("Sentence pairs: these runs on other sentences"))
        parts.append(_part(head, body, [i in (1, 2, 3, 4) for i in range(len(head))], width))
    for pairs in made.pairs:
        if pairs.disagreements:
            parts.append(bold(f"Ranked most differently in {pairs.column} (of {pairs.pairs}; 1 is least similar)"))
            texts = made.texts.get(pairs.column)
            parts.append(_bullets([_disagreement(pair, texts) for pair in pairs.disagreements], width))
    lacking = [p.column for p in made.pairs if p.disagreements and p.column not in made.texts]
    more = [f"texts of {', '.join(lacking)} are not at hand: give --data"] if lacking else []
    return "\n\n".join([*parts, _bullets([*made.notes(), *more], width)])


def _part(head: list[str], rows: list[list[str]], right: list[bool], width: int | None) -> str:
    if width is None:
        escaped = [[MARKDOWN.escape(entry) for entry in row] for row in rows]
        return markdown(head, [[signed(entry) for entry in row] for row in escaped], 1)
    last = head.index("A is")
    body: list[list[screen.Entry]] = [[*row[:last], screen.coloured(row[last]), *row[last + 1 :]] for row in rows]
    narrow = width < WIDE and head[-1] == "needs"  # the lines below say it too
    shown = slice(None, -1 if narrow else None)
    return screen.fitted(head[shown], [row[shown] for row in body], right[shown], width)


def _bullets(lines: Sequence[str], width: int | None) -> str:
    plain = [f"- {plain_text(line)}" for line in lines]
    return "\n".join(screen.prose(line, indent="  ") if width else f"- {MARKDOWN.escape(line[2:])}" for line in plain)


def _who(model: Model) -> str:
    if model.folder is not None:
        return f"{model.label} (a folder, no seeds)"
    seeds = f"seed{'s' * (len(model.seeds) > 1)} {', '.join(map(str, model.seeds))}"
    return f"{model.label} ({seeds})"


def _row(column: ColumnComparison) -> list[str]:
    sides = [f"{side.mean:.{column.digits}f}" for side in (column.left, column.right)]
    spreads = ["" if side.sd is None else f" ± {side.sd:.{column.digits}f}" for side in (column.left, column.right)]
    return [
        column.column,
        *(mean + spread for mean, spread in zip(sides, spreads, strict=True)),
        _signed(column.difference, column.digits),
        interval_text(column.interval, column.digits),
        str(column.common) if column.common else f"{column.left.n}/{column.right.n}",
        column.word,
        needs_text(column),
    ]


def needs_text(column: ColumnComparison) -> str:
    """Seeds of each side that would decide it; empty for what is decided, and for folders, which have none."""
    if column.word != "undecided" or min(*column.left.seeds, *column.right.seeds) < 0:
        return ""
    return f"{column.seeds_needed} seeds" if column.seeds_needed else f"over {MOST} seeds"


def _pair_row(pairs: PairComparison) -> list[str]:
    numbers = [
        f"{pairs.left:.2f}",
        f"{pairs.right:.2f}",
        _signed(pairs.difference, 2),
        interval_text(pairs.interval, 2),
    ]
    return [pairs.column, str(pairs.pairs), *numbers, pairs.word]


def _signed(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:+.{digits}f}"


def interval_text(interval: Interval | None, digits: int) -> str:
    """`+0.35 to +3.33`; a dash where no seeds tell."""
    return "-" if interval is None else " to ".join(_signed(end, digits) for end in interval)


def _disagreement(pair: Disagreement, texts: Pairs | None) -> str:
    ranks = f"A {pair.left_rank:.0f}, B {pair.right_rank:.0f}; grade {pair.grade:g} (rank {pair.grade_rank:.0f})"
    said = f"pair {pair.index}: {ranks}; nearer: {pair.nearer}"
    if texts is None:
        return said
    return f"{said}: {_short(texts.left[pair.index])} | {_short(texts.right[pair.index])}"


def _short(text: str) -> str:
    return text if len(text) <= TEXT else f"{text[:TEXT]}…"


def _table(made: Comparison) -> Table:
    """As a table of the registry's formats: a row for each column, A and B beside each other."""
    rows = []
    for column in made.columns:
        shown = _row(column)
        key = {"column": shown[0], "A - B": shown[3], "interval": shown[4], "A is": shown[6]}
        rows.append(Row(key, {"A": column.left, "B": column.right}))
    axes = list(rows[0].key)
    spec = TableSpec(id="comparison", title=f"{_who(made.left)} against {_who(made.right)}", axes=axes,
                     columns=["A", "B"], best="none")  # fmt: skip
    words = [f"{p.column}: on resampled sentence pairs {p.word}, {_signed(p.difference, 2)}, "
             f"interval {interval_text(p.interval, 2)}" for p in made.pairs]  # fmt: skip
    return Table(spec, rows, [], {}, [*words, *made.notes()])
