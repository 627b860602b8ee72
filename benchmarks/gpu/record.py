"""The figures of all parts as `gpu.json`, and the page that is made of them, `gpu.md`."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu.results import replaced

DONE, FAILED, CUT, SKIPPED = "done", "failed", "cut", "skipped"
"""States of a part that was begun; `cut`: its time or the call's was over, and the next call goes on."""


@dataclass
class PartRecord:
    """State of one part: how far it came, and its results."""

    state: str
    why: str = ""
    seconds: float = 0.0
    """Over all calls."""
    machine: str = ""
    items: dict[str, dict[str, Any]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def without_errors(self) -> "PartRecord":
        """To be run again: what went well stays."""
        items = {name: item for name, item in self.items.items() if not item["error"]}
        return PartRecord(CUT, "to be run again", self.seconds, self.machine, items, self.lines, self.facts)


@dataclass
class Record:
    """Record of all parts in `gpu.json` and `gpu.md` of a folder."""

    folder: Path
    quick: bool
    parts: dict[str, PartRecord] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        return self.folder / "gpu.json"

    @classmethod
    def open(cls, folder: Path, quick: bool) -> "Record":
        """Reads the folder's record. SystemExit for one of the other kind, quick or not: their figures must not mix."""
        record = cls(folder, quick)
        if record.file.exists():
            read = json.loads(record.file.read_text(encoding="utf8"))
            if read["quick"] != quick:
                kinds = ("with --quick", "without it") if read["quick"] else ("without --quick", "with it")
                raise SystemExit(
                    f"{folder}: its figures were made {kinds[0]}; for figures {kinds[1]} give another --to"
                )
            record.machine = read["machine"]
            record.parts = {name: PartRecord(**part) for name, part in read["parts"].items()}
        return record

    def save(self, titles: Mapping[str, str]) -> None:
        """Write both files; `titles`: part -> its heading, in the page's order."""
        self.folder.mkdir(parents=True, exist_ok=True)
        parts = {name: asdict(part) for name, part in self.parts.items()}
        replaced(self.file, {"quick": self.quick, "machine": dict(self.machine), "parts": parts})
        (self.folder / "gpu.md").write_text("\n".join(page(self, titles)) + "\n", encoding="utf8")


def named(machine: Mapping[str, Any]) -> str:
    """Returns a machine's description in a few words."""
    card = machine.get("card") or "no card"
    return f"{card}, torch {machine.get('torch')}, Python {machine.get('python')}, {machine.get('cores')} cores"


def page(record: Record, titles: Mapping[str, str]) -> list[str]:
    """The lines of `gpu.md`."""
    lines = ["# What was shown on a card", "", named(record.machine)]
    if record.quick:
        lines += ["", "Made with `--quick`, to see that it runs: the sizes are tiny, and no figure is a measurement."]
    versions = record.machine.get("packages", {})
    there = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    lines += ["", f"Packages: {there}. Absent: {', '.join(n for n, version in versions.items() if not version)}."]
    lines += ["", "| part | state | minutes | items | why |", "|---|---|--:|--:|---|"]
    for name, title in titles.items():
        part = record.parts.get(name, PartRecord("not begun"))
        lines.append(f"| {title} | {part.state} | {part.seconds / 60:.1f} | {len(part.items)} | {part.why} |")
    for name, title in titles.items():
        if name in record.parts:
            lines += section(title, record.parts[name], named(record.machine))
    return lines


def section(title: str, part: PartRecord, machine: str) -> list[str]:
    """Returns a part's section of the page: heading, its lines, those of its items, and failed items by name."""
    lines = ["", f"## {title}", ""]
    if part.machine and part.machine != machine:
        lines += [f"On another machine than the last call's: {part.machine}", ""]
    lines += part.lines
    for name, item in part.items.items():
        if item["error"]:
            lines += ["", f"{name} failed: {item['error']}"]
        elif item["lines"]:
            row_of_a_table = item["lines"][0].startswith("|") and lines[-1].startswith("|")
            lines += item["lines"] if row_of_a_table else ["", *item["lines"]]
    return lines
