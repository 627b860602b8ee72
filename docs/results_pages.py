"""docs/results again from its bundles: `python -m docs.results_pages` runs what its pages show, and trains nothing.

A page that imports a bundle shows its commands; the files that `--out` names are written, then the gallery. Sentences
around them are people's: tests/docs compares their figures. The data lie beside the repository (CONTRIBUTING.md).
"""

import contextlib
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cse.cli.app import main as cse
from cse.experiments import run as experiments_run
from docs import gallery_page
from docs.methods_page import folder

IMPORT = "cse import docs/results/bundles/"


def blocks(page: str) -> Iterator[list[str]]:
    """The commands of each code block, fenced or indented, that imports a bundle; a `\\` continues a line."""
    for block in re.findall(r"(?:^(?:    [^\n]*| *)\n)+|^```.*?^```", page + "\n", re.MULTILINE | re.DOTALL):
        lines = [line.strip() for line in block.replace("\\\n", " ").splitlines()]
        commands = [line for line in lines if line.startswith("cse ")]
        if any(command.startswith(IMPORT) for command in commands):
            yield commands


def _never(*given: object, **options: object) -> None:
    raise SystemExit("a bundle lacks runs of its page: train them, and write the bundle again (cse bundle)")


def _run_again(page: Path) -> None:
    """The commands of one page, in a folder from which `docs` and `../shared` are reached as from the repository."""
    for commands in blocks(page.read_text(encoding="utf8")):
        with tempfile.TemporaryDirectory() as work:
            checkout = Path(work) / "checkout"
            checkout.mkdir()
            (checkout / "docs").symlink_to(folder())
            (Path(work) / "shared").symlink_to(folder().parent.parent / "shared")
            with contextlib.chdir(checkout):
                for command in commands:
                    if cse(shlex.split(command)[1:]) != 0:
                        raise SystemExit(f"{page.name}: {command}")


if __name__ == "__main__":
    experiments_run.run_grid = _never  # type: ignore[assignment]
    for shown in sorted((folder() / "results").glob("*.md")):
        _run_again(shown)
    (folder() / "results" / "gallery.md").write_text(gallery_page.text(), encoding="utf8")
