"""skill/SKILL.md: its commands run from the wheel, in the order of the page, with the files that it shows."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.wheel import REPO, called

SKILL = REPO / "skill" / "SKILL.md"
FILE = re.compile(r"^`([\w.]+)`.*?\n```\w+\n(.*?)```", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```bash\n(.*?)```", re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    blocks = COMMANDS.findall(SKILL.read_text(encoding="utf8"))
    return [line for block in blocks for line in block.splitlines()]


def test_it_has_three_loops_and_says_what_it_is_for() -> None:
    text = SKILL.read_text(encoding="utf8")
    assert len(COMMANDS.findall(text)) == 3 and text.startswith("---\nname: cse-search\ndescription: ")
    assert all(line.startswith("cse ") for line in commands())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_its_commands_run_from_the_wheel(cse_of_wheel: Path, tmp_path: Path) -> None:
    for name, text in FILE.findall(SKILL.read_text(encoding="utf8")):
        (tmp_path / name).write_text(text, encoding="utf8")
    assert {path.name for path in tmp_path.iterdir()} == {"mine.yaml", "scores.csv"}
    for line in commands():
        words = shlex.split(line)[1:]
        done = called(cse_of_wheel, tmp_path, *words)
        assert done.returncode in ((0, 3, 4) if words[0] in ("gate", "confirm") else (0,)), (
            line,
            done.stdout,
            done.stderr,
        )
        if "json" in words:
            assert json.loads(done.stdout)["version"] == 1, line
    assert (tmp_path / "picked" / "modules.json").is_file()
