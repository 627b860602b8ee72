"""`cse data`: lists public data sets, or downloads them into the folder that `--data` names."""

import os
import shlex
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from analysis.documents import spell_key
from cse.cli.listing import FormatOption, listing, size
from cse.cli.loader import deferred
from cse_train.fields import ConfigError

with deferred(__name__):
    from cse.downloads import catalog
    from cse.downloads import get as getting

Action = Annotated[Literal["list", "get"], typer.Argument(help="Say what there is, or fetch some of it.")]
Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME...]", help="Of get: data sets, or all.")]
To = Annotated[Path, typer.Option(envvar="CSE_DATA", help="The folder of data.")]
Mirror = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Ask ADDRESS/FILE first; the hub's own mirror is HF_ENDPOINT."),
]
Update = Annotated[bool, typer.Option("--update", help="Take what is published now, where it is another version.")]


@dataclass(frozen=True)
class ListedSet:
    """A public data set, and what the data folder has of it."""

    name: str
    state: Literal["there", "incomplete", "not fetched"]
    megabytes: int = field(metadata=spell_key("MB"))
    """Approximate size of the download."""
    what: str
    licence: str
    source: str = field(metadata=spell_key("from"))
    """Address of the publisher's folder."""


Answer = list[ListedSet]


def data(
    action: Action,
    names: Names = None,
    to: To = Path("data"),
    mirror: Mirror = None,
    update: Update = False,
    form: FormatOption = "text",
) -> None:
    """List public data sets, or fetch some into the folder of data."""
    to = to.expanduser()
    if action == "list":
        if names:
            raise ConfigError([f"names are of get: {' '.join(names)}; write cse data get {' '.join(names)}"])
        print(listing(list_sets(to), form, "", spare=("from", "licence", "MB")))
        return
    if not names:
        raise ConfigError(["no name: cse data get NAME...; cse data list has them, all is every one"])
    if mirror and not mirror.startswith(("http://", "https://")):
        raise ConfigError([f"wrong address: --mirror={mirror}; begin it with https:// or http://"])
    chosen = catalog.find_sets(names)
    for data_set in chosen:
        tell = partial(_tell, data_set.name)
        entry, is_new = getting.get(data_set, to, mirror=mirror, update=update, tell=tell)
        size_text = size(sum((to / path).stat().st_size for path in entry.files))
        files = f"{len(entry.files)} file{'s' * (len(entry.files) != 1)}, {size_text}"
        tell(f"{files}, {'written' if is_new else 'there already'}; licence {data_set.licence}")
    quoted, absolute = shlex.quote(str(to)), shlex.quote(str(to.absolute()))
    print(f"use it: --data {quoted}" + ("" if os.environ.get("CSE_DATA") else f", or export CSE_DATA={absolute}"))


def _tell(name: str, line: str) -> None:
    print(f"{name}: {line}", flush=True)


def list_sets(to: Path) -> list[ListedSet]:
    """Returns the public data sets, with what a data folder has of them. Raises ConfigError for a damaged lock file."""
    entries = getting.read_lock(to)
    rows = []
    for data_set in catalog.PUBLIC_SETS:
        state: Literal["there", "incomplete", "not fetched"] = "not fetched"
        if entry := entries.get(data_set.name):
            state = "there" if all((to / path).is_file() for path in entry.files) else "incomplete"
        source = data_set.downloads[0].addresses[0].rpartition("/")[0]
        rows.append(ListedSet(data_set.name, state, data_set.megabytes, data_set.what, data_set.licence, source))
    return rows
