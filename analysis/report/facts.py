"""Small tables of a report: cost, runs without a result, provenance, shares of axes, and verdicts."""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from analysis.answers.judge import Verdicts
from analysis.render.signs import TONES, sign_word
from analysis.statistics.basics import sureness
from analysis.statistics.importance import Importance
from analysis.study.study import Study
from analysis.tables.aggregate import Table
from analysis.tables.labels import axis_text, label, some

FACT_EXAMPLES = 3
"""Number of runs that are named for a reason that many runs share."""
MOST_LISTED = 50
"""Largest number of lines of one table; further lines are counted."""


@dataclass(frozen=True)
class Grid:
    """Small table of a report: header, lines and caption; the first `texts` columns are words."""

    caption: str
    header: Sequence[str]
    body: Sequence[Sequence[str]]
    texts: int = 1
    tones: Sequence[str] = ()
    """Colour of each line's verdict; empty for a table without verdicts."""
    judged: int = -1
    """Index of the column of verdicts; -1 for none."""


def slug(text: str) -> str:
    """Returns a text in letters, digits and dashes, for a file's name."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-.") or "x"


def folder_name(name: str) -> str:
    """Returns a study's name as a folder's name; a hash is added if characters were replaced."""
    text = slug(name)
    return text if text == name else f"{text}-{hashlib.sha256(name.encode('utf8', 'replace')).hexdigest()[:6]}"


def cost(study: Study) -> Grid:
    """Returns a table of examples and hours of finished runs, and of attempts that failed or still run."""
    spent: dict[str, list[tuple[int, float]]] = {"finished runs": [], "other attempts": []}
    for member in study.members:
        for attempt in study.attempts.get(member.run.signature, ()) if member.run else ():
            ended = member.done and member.run is not None and attempt.attempt == member.run.attempt
            spent["finished runs" if ended else "other attempts"].append(
                (attempt.examples or 0, attempt.seconds or 0.0)
            )
    spent["all"] = [pair for pairs in spent.values() for pair in pairs]
    body = [
        [name, str(len(pairs)), f"{sum(examples for examples, _ in pairs):,}", f"{sum(s for _, s in pairs) / 3600:.2f}"]
        for name, pairs in spent.items()
    ]
    return Grid("Cost, as the runs report it", ["", "attempts", "training examples", "hours"], body)


def missing(study: Study) -> Grid:
    """Returns a table of the runs without a result by state and reason."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for member in study.missing:
        reason = (member.run.reason if member.run else None) or ""
        groups[member.state, reason].append(f"{member.cell} seed {member.seed}")
    ordered = sorted(groups.items())
    body = [[state, reason, some(runs, FACT_EXAMPLES, "; "), str(len(runs))] for (state, reason), runs in ordered]
    return Grid("Runs without a result", ["state", "reason", "runs", "number"], _cut_lines(body, 4), texts=3)


def _cut_lines(body: list[list[str]], width: int) -> list[list[str]]:
    """Returns the first lines of a table, and one that counts the others."""
    if len(body) <= MOST_LISTED:
        return body
    return [*body[:MOST_LISTED], [f"and {len(body) - MOST_LISTED} more", *[""] * (width - 1)]]


def environment(study: Study) -> Grid:
    """Returns a table of commits, hosts and packages of the attempts that finished."""
    counts: Counter[tuple[str, str]] = Counter()
    for _, run in study.finished:
        for attempt in study.attempts.get(run.signature, ()):
            if attempt.attempt == run.attempt:
                counts.update(_plain(attempt.details))
    return _list_counts("Code, machines and packages", counts)


def _plain(details: Mapping[str, object], prefix: str = "") -> Iterable[tuple[str, str]]:
    """Yields nested details as (dotted name, value) pairs."""
    for name, value in details.items():
        if isinstance(value, Mapping):
            yield from _plain(value, f"{prefix}{name}.")
        else:
            yield prefix + name, axis_text(value)


def inputs(study: Study) -> Grid:
    """Returns a table of the content hashes of the inputs that finished runs read."""
    counts = Counter((name, str(value)) for _, run in study.finished for name, value in run.identity.items())
    return _list_counts("Data, by content hash", counts)


def protocols(study: Study) -> Grid:
    """Returns a table of the protocols by which suites were scored."""
    by_hash = {score.protocol_hash: score.protocol.facts for score in study.scores}
    texts = {name: ", ".join(f"{k} {axis_text(v)}" for k, v in fields.items()) for name, fields in by_hash.items()}
    counts = Counter((score.suite, texts[score.protocol_hash]) for score in study.scores)
    return _list_counts("Protocols of the scores", counts)


def _list_counts(caption: str, counts: Counter[tuple[str, str]]) -> Grid:
    body = [[name, value, str(number)] for (name, value), number in sorted(counts.items())]
    return Grid(caption, ["what", "value", "runs"], _cut_lines(body, 3), texts=2)


def shares(effects: Importance) -> Grid:
    """Returns a table of the importance of each axis."""
    body = [
        [a.axis, str(a.levels), _percent(a.share), _percent(a.floor), "" if a.p is None else f"{a.p:.2g}"]
        for a in sorted(effects.axes, key=lambda axis: (-axis.share, axis.axis))
    ]
    other_shares = {"seeds": effects.seeds, "interactions": effects.rest}
    body += [[name, "", _percent(share), "", ""] for name, share in other_shares.items() if share]
    header = ["axis", "values", "share", "seeds alone (1 of 20)", "p"]
    return Grid("Share of the sum of squares", header, body)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}%"


def verdicts(table: Table, judged: Verdicts) -> Grid:
    """Returns a table of the verdict on each published value."""
    body = []
    for (index, column), verdict in judged.items():
        row, interval = table.rows[index], verdict.interval
        digits = table.digits(column)
        sure = "" if verdict.level is None else f" ({sureness(verdict.level)})"
        span = "" if interval is None else f"{interval[0]:.{digits}f} to {interval[1]:.{digits}f}{sure}"
        name = label(row.key, table.named)
        body.append([name, column, sign_word(verdict.word), verdict.reason, span, f"{verdict.published:.{digits}f}"])
    header = ["row", "column", "verdict", "reason", "interval", "published"]
    tones = [TONES.get(verdict.word, "") for verdict in judged.values()]
    return Grid("Verdict on each published value", header, body, texts=4, tones=tones, judged=2)
