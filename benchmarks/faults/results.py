"""The results file, one line of JSON per trial, and the table that is made of it in docs/reliability.md."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

HEAD = ["| fault | planned | injected | passed | seconds per fault |", "|---|--:|--:|--:|--:|"]
FAILED = "## What did not pass"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Result of one injected fault: the problems that it left."""

    row: str
    number: int
    seed: int
    points: int
    delay_s: float
    problems: list[str]
    seconds: float
    commit: str | None
    at: str


def read(path: Path) -> list[Trial]:
    """The trials so far; a last line that was cut short by a kill is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf8").split("\n")[:-1]
    return [Trial(**json.loads(line)) for line in lines if line.strip()]


def append(path: Path, trial: Trial) -> None:
    """Add one line; what a kill left of an earlier line is cut off first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_text(encoding="utf8") if path.exists() else ""
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf8")
    with path.open("a", encoding="utf8") as file:
        file.write(json.dumps(asdict(trial)) + "\n")


def page(text: str, trials: Sequence[Trial], bars: dict[str, tuple[str, int]]) -> str:
    """The page `text` with the table of these trials, and at its end what did not pass.

    `bars` gives a row's words and its number of trials.
    """
    before, _, rest = text.partition(HEAD[0])
    after = rest.partition("\n\n")[2].partition(FAILED)[0].rstrip()
    lines = [*HEAD]
    for row, (words, wanted) in bars.items():
        injected = [trial for trial in trials if trial.row == row]
        passed = sum(not trial.problems for trial in injected)
        seconds = f"{sum(trial.seconds for trial in injected) / len(injected):.0f}" if injected else ""
        lines.append(f"| {words} | {wanted} | {len(injected)} | {passed if injected else 'not shown'} | {seconds} |")
    failed = [f"- {t.row} {t.number} (seed {t.seed}): {_one_line(t.problems)}" for t in trials if t.problems]
    return "\n".join([before + lines[0], *lines[1:], "", after, "", *([FAILED, "", *failed, ""] if failed else [])])


def _one_line(problems: Sequence[str]) -> str:
    """Problems, what a driver printed among them, as one line of a list; tables are left out."""
    words = [line.strip() for problem in problems for line in problem.splitlines()]
    return "; ".join(word for word in words if word and "|" not in word and not word.startswith("- Protocol"))
