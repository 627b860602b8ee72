"""`cse status`: shows in the terminal how far the sweeps of a ledger are, with the figures of the live page."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from analysis.documents import dump_json
from analysis.ledger.cluster_log import Driver
from analysis.progress.sweeps import Follower, SweepDetail, SweepProgress
from analysis.run_folder import RunFolder
from analysis.run_state import RunState
from analysis.tables.labels import number_of
from cse.cli import ledgers, options, screen
from cse.cli.listing import FormatOption
from cse.cli.status_text import facts, lacking
from cse_train.fields import ConfigError

STATUS_BAR = 30
"""Characters of a progress bar."""
RUNS_LISTED = 12
"""Maximum number of running runs, and of failed runs, listed for a sweep."""
Name = Annotated[str | None, typer.Argument(metavar="ID|FILE|SWEEP", help="A space, or a sweep (cse ls).")]
Answer = list[SweepDetail | SweepProgress]


def status(name: Name = None, ledger: ledgers.LedgerUrl = None, form: FormatOption = "text") -> None:
    """Show how far each sweep is: runs by state, best so far, time left, what failed and where its log is."""
    rows, text = read(name, ledger)
    print(dump_json(rows) if form == "json" else screen.prose(text or "no sweeps yet: cse demo starts one", "    "))


def read(name: str | None, ledger: str | None) -> tuple[Sequence[SweepProgress], str]:
    """Returns every sweep of a ledger, or those of one name with their runs, and the text on them.

    Raises ConfigError where no sweep of the name has runs.
    """
    follower = Follower(ledgers.connect_ledger(ledger))
    sweeps = follower.overview().sweeps
    if name is None:
        return sweeps, "\n".join(map(block, sweeps))
    names = options.sweeps_of(name, ledgers.existing_ledger(ledger))
    chosen = [row for row in sweeps if row.id in names]
    if not any(row.runs for row in chosen):
        first = chosen[0]
        advice = f"cse plan {shlex.quote(first.id)} says why"
        raise ConfigError([f"no runs: sweep={first.id}, {lacking(first.missing_input)}; {advice}"])
    details = [row for sweep in chosen if (row := follower.detail(sweep.id))]
    return details, "\n".join(map(long_block, details))


def block(sweep: SweepProgress) -> str:
    """Returns two to four lines on one sweep, and one for each of its drivers."""
    head = f"{sweep.id}  {sweep.title}".rstrip()
    lines = [head, f"  {bar(sweep.share)} {sweep.share:4.0%}  {', '.join(facts(sweep))}"]
    if sweep.best is not None:
        lines.append(f"  best run {_tell_score(sweep.best, sweep)}  {sweep.best_run}")
    lines += [f"  {line}" for line in sweep.spent]
    lines += map(driver_line, sweep.drivers)
    if sweep.dashboard:
        lines.append(f"  Ray dashboard http://{sweep.dashboard}{f' on {sweep.host}' if sweep.host else ''}")
    if sweep.lost_logs:
        lines.append(f"  its driver or cluster was lost; Ray's logs: {sweep.lost_logs}")
    return "\n".join(lines)


def driver_line(driver: Driver) -> str:
    """Returns a line on one driver: its slots, priority and the limit of its user."""
    waits = f", {driver.wanted - driver.running} more wait" if driver.wanted > driver.running else ""
    cap = f", at most {driver.cap} for {driver.user}" if driver.cap else ""
    slots = f"{driver.running} of {number_of(driver.slots, 'slot')}{waits}"
    return f"  driver {driver.owner.rpartition(':')[0]}  {slots}, priority {driver.priority}{cap}"


def long_block(sweep: SweepDetail) -> str:
    """Returns the lines of `block` for a sweep, then its running and its failed runs."""
    states = RunState.RUNNING, RunState.FAILED
    running, failed = ([run for run in sweep.listed if run.state == state] for state in states)
    lines = [block(sweep)]
    for run in running[:RUNS_LISTED]:
        score = "" if run.best is None else f"  best {_tell_score(run.best, sweep)}"
        lines.append(f"  {run.share:4.0%}  {run.label}{score}")
    for run in failed[:RUNS_LISTED]:
        lines.append(f"  failed  {run.label}: {run.reason or 'no reason is recorded'}")
        if run.folder:
            lines.append(f"          log {RunFolder(Path(run.folder)).logs}")
    return "\n".join(lines)


def _tell_score(score: float, sweep: SweepProgress) -> str:
    """Formats a score with the sign and decimals in which the sweep's runs report it."""
    return f"{-score if sweep.is_turned else score:.{sweep.digits}f}"


def bar(share: float) -> str:
    """Returns a progress bar for a share from 0 to 1; it is full only at 1."""
    filled = STATUS_BAR if share >= 1 else int(share * STATUS_BAR)
    return "█" * filled + "░" * (STATUS_BAR - filled)
