"""`cse site`: writes published tables, with results for them, as a static site."""

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from analysis.answers.bundle_records import check_records
from analysis.bundles import Bundle
from analysis.ledger import Ledger, LedgerError, mask_password
from analysis.ledger.exchange.merge import RecordSource, merge
from cse.cli import ledgers, screen
from cse.cli.loader import deferred
from cse_train.fields import ConfigError
from cse_train.files import replace_text

with deferred(__name__):
    from cse.site import files as pages
    from cse.site import gallery

Files = Annotated[
    list[Path] | None,
    typer.Argument(metavar="BUNDLE...", help="Files of cse bundle; without any, the ledger."),
]
To = Annotated[Path, typer.Option(help="Folder of the site, new or not; files of the same names are replaced.")]


def site(to: To, files: Files = None, ledger: ledgers.LedgerUrl = None) -> None:
    """Write a static site of all published tables with verdicts, curves and commands, from bundles or a ledger."""
    _check(to, files or [], ledger)
    screen.note("reading runs and comparing tables")
    with _open(files or [], ledger) as (opened, sources):
        contents = gallery.gather(opened, sources)
        count = _write(to, pages.files(contents))
    run = sum(bool(sheet.scales) for sheet in contents.published)
    print(f"wrote {to / 'index.html'}: {run} of {len(contents.published)} tables with runs; {count} files")


def _write(to: Path, files: Iterable[tuple[str, str]]) -> int:
    """Writes the files and returns their number; they are moved into place together, so that a full disk changes
    nothing."""
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".site-", dir=to) as temporary:
        names = list[str]()
        for name, text in files:
            replace_text(Path(temporary, name), text)
            names.append(name)
        for name in names:
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            Path(temporary, name).replace(to / name)
    return len(names)


def _check(to: Path, files: list[Path], ledger: str | None) -> None:
    """Raises ConfigError that lists every mistake in the arguments."""
    problems = []
    if to.exists() and not to.is_dir():
        problems.append(f"not a folder: --to={to}; name a folder, new or not")
    if files and ledger:
        problems.append(f"two sources: --ledger={mask_password(ledger)} beside {len(files)} bundles; give one of them")
    absent = [file for file in files if not file.is_file()]
    problems += [f"no such file: file={file}; name a bundle (cse bundle writes one)" for file in absent]
    if problems:
        raise ConfigError(problems)


@contextlib.contextmanager
def _open(files: list[Path], url: str | None) -> Iterator[tuple[Ledger, list[str]]]:
    """Yields the ledger and its name for the pages; bundles are imported into a temporary ledger."""
    if not files:
        opened = ledgers.existing_ledger(url)
        if opened is None:
            raise ConfigError([f"no ledger yet: --ledger={ledgers.ledger_url(None)}; name bundles, or another ledger"])
        yield opened, ["a ledger"]
        return
    with tempfile.TemporaryDirectory(prefix="cse-site-") as folder:
        opened = Ledger.open(Path(folder) / "ledger.db")
        with contextlib.closing(opened):
            for file in sorted(files, key=lambda file: file.name):
                bundle = Bundle(file)
                try:
                    merge(opened, check_records(bundle), RecordSource(file.name, bundle.header.sha256))
                except LedgerError as error:
                    line, _, remedy = str(error).partition("; nothing was imported")
                    if not remedy:
                        raise
                    line = line.replace(" here and ", " in another of these bundles and ")
                    raise ConfigError([f"{line}; leave one of the two bundles out"]) from error
            yield opened, sorted(file.name for file in files)
