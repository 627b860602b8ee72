"""`cse eval`: score a finished run's best checkpoint on more suites."""

from pathlib import Path
from typing import Annotated

import typer

from cluster.commands import arguments
from cluster.commands.columns import Format, FormatOption, listing
from cluster.commands.run_folder import run_folder

Run = Annotated[str, typer.Argument(help="A run's folder, signature, or a sweep (its best run).")]
Suites = Annotated[
    list[str] | None, typer.Option("--suite", help="sts_dev, sts_test, sts12 ... sickr_test; repeatable.")
]
Out = Annotated[Path | None, typer.Option("--to", help="Folder of the per-pair cosines (the run's scores).")]


def evaluate(
    run: Run,
    suite: Suites = None,
    data: arguments.Data = None,
    senteval: arguments.SentEval = None,
    ledger: arguments.LedgerUrl = None,
    to: Out = None,
    form: FormatOption = Format.text,
) -> None:
    """Score a run's best checkpoint; every number comes with its protocol."""
    folder = run_folder(run, ledger)
    paths = arguments.data_paths(data, None, senteval)
    from cse_train.evaluate.score import score_checkpoint

    best = folder / "best" if (folder / "best").is_dir() else folder
    scores = score_checkpoint(best, suite or ["sts_dev"], paths, (to or folder / "scores").resolve())
    rows = [{"suite": s.suite, "spearman": s.value, **_protocol(s.protocol)} for s in scores]
    print(listing(rows, form, "no suite"))


def _protocol(protocol: object) -> dict[str, object]:
    found = protocol if isinstance(protocol, dict) else protocol.as_dict()  # type: ignore[attr-defined]
    return {name: value for name, value in found.items() if name != "suite"}
