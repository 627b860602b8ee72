"""The cells of E7, E8 and S3 at small, as runs of generated text: `python -m benchmarks.gpu.cells` notes them.

The card's machine has no pydantic, which reading a space needs; a test compares the noted cells with the spaces.
"""

import json
from pathlib import Path
from typing import Any

from search_spaces.catalog import load_space
from search_spaces.cells import resolve

TABLES, PROFILE = ("E7", "E8", "S3"), "small"
FILE = Path(__file__).with_name("cells.json")


def cells() -> list[dict[str, Any]]:
    """Table and settings of each; a cell that two tables share stands once."""
    noted: dict[str, dict[str, Any]] = {}
    for table in TABLES:
        for cell in resolve(load_space(table), PROFILE).cells():
            flat = cell.run(0).flat()
            key = json.dumps({name: flat[name] for name in sorted(flat)})
            noted.setdefault(key, {"table": table, "settings": dict(cell.settings)})
    return list(noted.values())


if __name__ == "__main__":
    FILE.write_text(json.dumps(cells(), indent=1) + "\n", encoding="utf8")
