"""The results file, one line of JSON per trial, and the page that is made of it."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One fault and what was found after it."""

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


def page(trials: Sequence[Trial], bars: dict[str, tuple[str, int]]) -> str:
    """Markdown; `bars` gives a row's words and its number of trials."""
    lines = [
        "# Reliability: what was killed, and what was found after",
        "",
        "Made by `python -m benchmarks.faults` from `docs/results/faults.jsonl`. Each trial is a real sweep of four "
        "short runs on Ray, hurt at a random moment of a recorded seed; where needed the same command was given again. "
        "Then the ledger, the study, the files, every dev metric and the best weights are compared with an undisturbed "
        "sweep, bit for bit.",
        "",
        "| fault | trials wanted | done | as they should be | seconds per trial |",
        "|---|--:|--:|--:|--:|",
    ]
    for row, (words, wanted) in bars.items():
        own = [trial for trial in trials if trial.row == row]
        good = sum(not trial.problems for trial in own)
        seconds = f"{sum(trial.seconds for trial in own) / len(own):.0f}" if own else ""
        lines.append(f"| {words} | {wanted} | {len(own)} | {good if own else 'not shown'} | {seconds} |")
    bad = [f"- {t.row} {t.number} (seed {t.seed}): {'; '.join(t.problems)}" for t in trials if t.problems]
    return "\n".join([*lines, *(["", "What was not as it should be:", "", *bad] if bad else []), ""])
