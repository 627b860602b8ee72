"""`cse import`: runs of a bundle into a ledger."""

from pathlib import Path
from typing import Annotated

import typer

from analysis.bundles.reader import Bundle
from analysis.ledger.exchange.merge import Merged, Source
from cse.cli import exit, options
from cse_train.fields import ConfigError

File = Annotated[Path, typer.Argument(metavar="FILE", help="A bundle that cse bundle wrote.", show_default=False)]


def import_(file: File, ledger: options.LedgerUrl = None) -> None:
    """Take a bundle's runs over into a ledger: all of them or, where one contradicts a run that is there, none."""
    if not file.is_file():
        raise ConfigError([f"no such file: file={file}; name a bundle (cse bundle writes one)"])
    bundle = Bundle(file)
    opened = options.open_ledger(ledger, create=True)
    merged = opened.merge(bundle.records(), Source(file.name, bundle.header.sha256))
    print(f"{counted(merged)}  (ledger {opened.url})")
    exit.say(left(merged))


def counted(merged: Merged) -> str:
    """What was taken over."""
    parts = [f"{merged.added} runs imported", f"{merged.there} already there"]
    parts += [f"{merged.replaced} that had no result here replaced"] if merged.replaced else []
    parts += [f"{merged.scores} scores of runs here added"] if merged.scores else []
    return ", ".join(parts)


def left(merged: Merged) -> list[str]:
    """What was not."""
    lines = [f"left out: {merged.held} runs that a driver trains here now"] if merged.held else []
    if merged.other_baselines:
        columns = ", ".join(dict.fromkeys(merged.other_baselines))
        lines.append(f"rows without training differ: {columns}; those of the ledger stay")
    return lines
