"""`cse embed`: writes the embeddings of a file's sentences."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from analysis.answers.lookup import encoder_for
from cse.cli import ledgers, options
from cse.cli.loader import deferred
from cse.cli.model_options import Encoder, MaxLength, Model, Pooler, Prompt, model_folder
from cse_train.evaluate.embed_file import count_sentences, embed_file

with deferred(__name__):
    from cse_train.evaluate import models

File = Annotated[Path, typer.Argument(help="One sentence a line, or .csv, .tsv, .jsonl; each also as .gz.")]
To = Annotated[Path, typer.Option(help="The file to write: .npy (float32, a row a sentence) or .parquet.")]
Column = Annotated[str | None, typer.Option(help="The column to read of a table (text of .jsonl).")]


def embed(
    model: Model,
    file: File,
    to: To,
    column: Column = None,
    plugins: options.Plugins = None,
    pooler: Pooler = None,
    max_length: MaxLength = None,
    prompt: Prompt = None,
    encoder: Encoder = None,
    ledger: ledgers.LedgerUrl = None,
    storage: options.Storage = None,
) -> None:
    """Embed the sentences of a file, in order, blank lines too; memory stays the same for any number of lines."""
    folder = model_folder(model, ledger, storage)
    place = encoder_for(folder, ledgers.existing_ledger(ledger, storage), encoder)
    count = count_sentences(file, to, column)
    opened = models.open_model(folder, pooler=pooler, max_length=max_length, prompt=prompt, encoder=place)
    with _progress(count) as report:
        embed_file(opened, file, to.resolve(), count, column, report)
    front = f", prompt {opened.prompt!r}" if opened.prompt else ""
    print(f"wrote {to.resolve()} ({count} sentences, pooler {opened.pooler}, max_length {opened.max_length}{front})")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """Shows a progress bar with the time left on stderr; yields a callback that takes the number of sentences done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("sentences"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.update(task, completed=done)
