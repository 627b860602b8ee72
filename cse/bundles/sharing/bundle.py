"""`cse bundle`: writes results of a ledger as one file, for another ledger or reader."""

from pathlib import Path
from typing import Annotated

import typer

from analysis.ledger import Ledger
from analysis.tables.labels import number_of
from cse.bundles.contents import SUFFIX, Contents, gather, write
from cse.cli import exit, ledgers, options
from cse_train.fields import ConfigError

ALL = "all"
FRAMES_ADVICE = ", or read scores with cse.frames in Python (commit 7250940 was the last to write them as .csv)"
Names = Annotated[
    list[str], typer.Argument(metavar="SWEEP|ID|FILE...", help="Sweeps (cse ls), spaces, or `all` of the ledger.")
]
To = Annotated[Path, typer.Option(help="The file, whose name ends in .jsonl.gz; an old one is replaced.")]
Pairs = Annotated[
    bool, typer.Option("--pairs/--no-pairs", help="Also the order of sentence pairs, by which pages compare rows.")
]


def bundle(names: Names, to: To, ledger: ledgers.LedgerUrl = None, pairs: Pairs = True) -> None:
    """Write sweeps with scores, curves, settings and provenance into one file that `cse import` reads."""
    if not to.name.endswith(SUFFIX):
        advice = FRAMES_ADVICE if to.suffix == ".csv" else ""
        raise ConfigError([f"unknown format: --to={to}; end the name in {SUFFIX}{advice}"])
    if to.is_dir() or not to.parent.is_dir():
        reason = "is a folder" if to.is_dir() else "is in no folder that exists"
        raise ConfigError([f"no file: --to={to} {reason}; name a file"])
    opened = ledgers.existing_ledger(ledger)
    if opened is None:
        raise ConfigError([f"no ledger yet: --ledger={ledgers.ledger_url(None)}; cse demo starts one, or name another"])
    sweeps = None if ALL in names else sweeps_of(names, opened)
    contents = gather(opened, sweeps, with_pairs=pairs)
    if not contents.runs:
        raise ConfigError([f"nothing to bundle: no run of {', '.join(names)} has ended; let cse run go on"])
    write(to, contents)
    points, scores = (sum(len(run[part]) for run in contents.runs) for part in ("curve", "scores"))
    counts = f"{number_of(len(contents.runs), 'run')} of {number_of(len(contents.sweeps), 'sweep')}"
    counts += f", {number_of(points, 'point')} of curves, {number_of(scores, 'score')}"
    print(f"wrote {to}: {counts}; {to.stat().st_size:,} bytes")
    exit.say(list_left_out(contents))


def sweeps_of(names: list[str], ledger: Ledger) -> set[str]:
    """Returns the sweeps that names of sweeps or spaces mean. Raises ConfigError for each name that is neither."""
    chosen: set[str] = set()
    problems = []
    for name in names:
        try:
            chosen |= set(options.sweeps_of(name, ledger))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return chosen


def list_left_out(contents: Contents) -> list[str]:
    """Returns lines on runs and cosines that a bundle lacks."""
    lines = []
    if contents.unended:
        lines.append(f"left out: {number_of(contents.unended, 'run')} without an end; bundle again when there is one")
    if contents.without_pairs:
        lines.append(
            f"left out: the cosines behind {number_of(contents.without_pairs, 'score')}, whose files are not here; "
            "pages of the file will not compare rows by sentence pairs"
        )
    return lines
