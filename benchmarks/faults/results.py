"""The results file, one line of JSON per trial, and the page that is made of it."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

INTRODUCTION = """# Reliability: what was killed, and what was found after

Made by `python -m benchmarks.faults` from `docs/results/faults.jsonl`. A real sweep of eight short runs on Ray takes
up to five faults, each at a random moment of a recorded seed; where a fault ends the sweep the same command is given
again. In the end, for each fault: what was finished was not trained again, what was half-run went on from its
checkpoint, and what an orphan would write late is refused. Then the ledger, the study, the files, every dev metric
and the best weights are compared with an undisturbed sweep, bit for bit; what is wrong there counts against the last
fault. All of it ran on two CPU cores that other work shared.
"""
UNCOVERED = """What faults uncovered, and what was mended:

- Two drivers of one search wrote each run twice into the study.
- After the loss of one of two nodes, the run of the slot that found no room on the other failed as "workers lost 3
  times"; it waits now. It would have waited for ever, because an idle slot kept its CPU: its group ends after 20 s.
- A node lost while its ranks started was counted as lost workers, and the reason told of a controller alone.
- A storage that became read-only was told in one line, but below a traceback of Tune's own.
- The study in a PostgreSQL that was restarted kept one run of eight: it is brought up to date now.
- An interrupt while Ray started gave the claimed run back only when Ray was up, 16 s later on a loaded machine; a run
  is free again within seconds now.
- A mere start of a cluster left a folder of Ray's dashboard among the temporary files.

Two faults were the benchmark's own, and were struck again: three kills of workers that met one run, which is continued
twice (`max_retries`), so that a sweep takes two of them now; and a second cut of one sweep's link, before which the
sweep was over, so that each sweep takes one.

Left out of the count, since the code changed and the row was struck anew: six interrupts, one of which took 16.1 s to
save; and the first thousand runs, on a starved machine, whose last hundred took 8.3 s after 5.1 s. File handles of that
row counted as a leak from the first one on, and do so from the ninth now: SQLite's pool and Ray open some of their own.
"""


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
    lines = [INTRODUCTION, "| fault | wanted | struck | as it should be | seconds per fault |", "|---|--:|--:|--:|--:|"]
    for row, (words, wanted) in bars.items():
        own = [trial for trial in trials if trial.row == row]
        good = sum(not trial.problems for trial in own)
        seconds = f"{sum(trial.seconds for trial in own) / len(own):.0f}" if own else ""
        lines.append(f"| {words} | {wanted} | {len(own)} | {good if own else 'not shown'} | {seconds} |")
    lines += ["", UNCOVERED]
    bad = [f"- {t.row} {t.number} (seed {t.seed}): {_one_line(t.problems)}" for t in trials if t.problems]
    return "\n".join([*lines, *(["What was not as it should be:", "", *bad, ""] if bad else [])])


def _one_line(problems: Sequence[str]) -> str:
    """Problems, what a driver printed among them, as one line of a list; tables are left out."""
    words = [line.strip() for problem in problems for line in problem.splitlines()]
    return "; ".join(word for word in words if word and "|" not in word and not word.startswith("- Protocol"))
