"""What a run of each scale costs, as all were measured in one sitting at commit 7250940."""

import json
from collections.abc import Mapping
from pathlib import Path

FILE = "scales_seconds.json"
Seconds = Mapping[str, float]
"""`TABLE ENCODER EXAMPLES` -> CPU seconds of a run of the default row, dev evaluations included."""


def name_of(table: str, encoder: str, examples: int) -> str:
    return f"{table} {encoder} {examples}"


def stored(folder: Path) -> Seconds:
    """What was measured last."""
    file = folder / FILE
    return json.loads(file.read_text(encoding="utf8")) if file.exists() else {}
