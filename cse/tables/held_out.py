"""What the picked run of a selection scores on test sets, and how often its sweep has been looked at so."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class HeldOutScores:
    """The picked run on test sets."""

    values: Mapping[str, float]
    """Column -> value."""
    scored: tuple[str, ...]
    """Suites that were scored just now; the others were stored."""
    look: int
    """How many different runs of this sweep have been scored on one of these suites, this one included."""
    sweep: str

    @property
    def warning(self) -> str:
        """Empty for the first selection that looks."""
        if self.look < 2:
            return ""
        return (
            f"test looked at before: sweep={self.sweep}, this is selection number {self.look} scored on these sets; "
            "report the first, or say how many there were"
        )

    def as_dict(self) -> dict[str, Any]:
        return {"values": dict(self.values), "scored": list(self.scored), "look": self.look}

    def lines(self) -> list[str]:
        """For people."""
        how = f"scored now: {', '.join(self.scored)}" if self.scored else "stored, not scored again"
        return [f"test ({how}; look {self.look})", *(f"  {name} {value:.2f}" for name, value in self.values.items())]
