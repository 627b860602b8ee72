"""What a part of `benchmarks.gpu` has so far: items by name, kept in a JSON file that is replaced after each of them.

An item that is in the file is not done again. One that raised has an `error`, and the next item follows.
"""

import argparse
import json
import os
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Done = tuple[list[str], Mapping[str, Any]]
"""Lines of Markdown, and figures by name."""


def replaced(file: Path, content: Any) -> None:
    """Write JSON so that a reader never meets half of it."""
    fresh = file.with_name(f"{file.name}.new")
    fresh.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")
    os.replace(fresh, file)


@dataclass
class Results:
    """The items of one part, in the order in which they were done."""

    file: Path
    items: dict[str, dict[str, Any]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    """Lines of the page in front of the items' own."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Values that the part reads again in its next call."""

    @classmethod
    def read(cls, file: Path) -> "Results":
        """Reads the results in a file; returns empty ones where there is no file."""
        return cls(file, **(json.loads(file.read_text(encoding="utf8")) if file.exists() else {}))

    def save(self) -> None:
        replaced(self.file, {"items": self.items, "lines": self.lines, "facts": self.facts})

    def add(
        self,
        name: str,
        seconds: float,
        lines: list[str] | None = None,
        error: str | None = None,
        figures: Mapping[str, Any] | None = None,
    ) -> None:
        """Adds an item and saves all results."""
        self.items[name] = {"seconds": round(seconds, 2), "lines": lines or [], "error": error}
        self.items[name]["figures"] = dict(figures or {})
        self.save()

    def do(self, name: str, work: Callable[[], Done]) -> None:
        """Do an item unless it was done. What it raises is its error; a card that no longer answers ends the part."""
        if name in self.items:
            return
        print(f"\n== {name}", flush=True)
        begun = time.perf_counter()
        try:
            lines, figures = work()
        except Exception as error:
            traceback.print_exc()
            self.add(name, time.perf_counter() - begun, error=one_line(error))
            wait()
            return
        print("\n".join(lines), flush=True)
        self.add(name, time.perf_counter() - begun, lines, figures=figures)


def one_line(error: BaseException) -> str:
    """The kind of an exception and the first line of what it says."""
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or ['no message'])[0][:300]}"


def wait() -> None:
    """Until the card has done all that it was given; RuntimeError where it no longer answers."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


@dataclass(frozen=True)
class Call:
    """Arguments of a part's process."""

    results: Results
    quick: bool
    record: Path | None
    """The figures of all parts so far."""

    def of_part(self, part: str) -> Mapping[str, Any]:
        """Another part's items, by name; none where it was not run."""
        if self.record is None or not self.record.exists():
            return {}
        parts = json.loads(self.record.read_text(encoding="utf8"))["parts"]
        return dict(parts.get(part, {}).get("items", {}))


def called(description: str | None) -> Call:
    """Reads the arguments of a part's process from its command line."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True, help="JSON file of the part's items")
    parser.add_argument("--record", type=Path, help="JSON file of all parts")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    return Call(Results.read(given.results), given.quick, given.record)
