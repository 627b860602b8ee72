"""The docs as a site: what is generated from the code says what the code says, and the whole builds strictly."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cse
from cluster.runtime.resources import GROUP_GB, WORKER_GB
from cse.cli import app, exit
from cse.compare import candidate
from docs.hooks import commands, python_api, repository, results, space_keys
from search_spaces.schema import schema

REPO = Path(__file__).resolve().parents[2]
DOCS = REPO / "docs"
HINT = "the site needs mkdocs-material: pip install -c constraints.txt -e '.[docs]'"
LLMS = (DOCS / "llms.txt").read_text(encoding="utf8")
COMMANDS = {command.name: command for command in commands.commands()}
CODES = {exit.DONE, exit.SOME_FAILED, exit.MISTAKE, exit.INTERRUPTED}
OF_GATE = {candidate.WORSE, candidate.MORE_SEEDS, candidate.NO_SEED_EFFECT}


def test_every_command_has_a_page_with_every_option() -> None:
    pages = commands.pages()
    assert list(COMMANDS) == list(app.command_files())
    for name, command in COMMANDS.items():
        page = pages[commands.file_of(command)]
        assert page.startswith(f"# cse {name}\n") and app.summary(app.command_files()[name]) in page
        assert [p.heading for p in command.parameters if f"\n`{p.heading}`\n:   " not in page] == []
        assert f"]({commands.file_of(command)})" in pages["commands.md"]
    seeds = next(p for p in COMMANDS["plan"].parameters if "--seeds" in p.names)
    assert (seeds.type, seeds.kind, seeds.required, seeds.default) == ("integer", "option", False, None)


def test_the_commands_as_json_have_names_types_and_defaults() -> None:
    content = json.loads(commands.as_json())
    gate_entry = next(command for command in content["commands"] if command["name"] == "gate")
    options = {name: parameter for parameter in gate_entry["parameters"] for name in parameter["names"]}
    assert options["--margin"]["type"] == "float" and options["--margin"]["default"] == 0.5
    assert options["--against"]["required"] and options["--format"]["type"] == "text|json"
    assert {int(code) for code in content["exit_codes"]} == CODES | OF_GATE


def test_exit_codes_are_those_of_the_code() -> None:
    constants = {
        value
        for name, value in vars(exit).items()
        if name.isupper() and type(value) is int  # a new code is a new line
    }
    assert constants == CODES
    assert {int(code) for code in commands.exit_codes()} == CODES | OF_GATE
    assert {int(code) for code in re.findall(r"\d+", str(app.app.info.epilog))} == CODES
    listed = LLMS.partition("## Exit codes")[2].partition("## ")[0]
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", listed, re.MULTILINE)} == CODES | OF_GATE


def test_the_page_for_programs_names_commands_that_print_json() -> None:
    rows = re.findall(r"^\| `cse ([\w-]+) (.*?)` \| .* \| (yes|no).* \|$", LLMS, re.MULTILINE)
    assert len(rows) == 6
    printing = {name for name, command in COMMANDS.items() for p in command.parameters
                if p.names[0] == "--format" and "json" in p.type + p.metavar}  # fmt: skip
    assert all((name in printing) == (said == "yes") == ("--format json" in words) for name, words, said in rows)
    assert set(re.findall(r"`cse ([\w-]+)", LLMS)) - {"COMMAND", "demo", "run", "reproduce", "schema"} == printing
    for link in re.findall(r"\]\((\w[\w/]*)/\)", LLMS):
        assert link.startswith("reference/") or (DOCS / f"{link}.md").is_file(), link


def test_every_key_of_the_schema_is_on_the_page() -> None:
    page = space_keys.page()
    whole = schema()
    keys = [*whole["properties"], *(key for key in whole["$defs"] if "." in key)]
    keys += [key for part in ("search", "paper") for key in whole["properties"][part]["properties"]]
    assert [key for key in keys if f"\n`{key}`\n:   " not in page] == []
    assert "`method.dup_rate`\n:   number at least 0, below 1; default `0.32`\n\n    Largest share" in page


def test_every_function_of_a_notebook_is_on_the_page() -> None:
    page = python_api.page()
    names = [f"cse.{name}" for name in cse.COMMANDS] + [f"cse.frames.{name}" for name in cse.FRAMES]
    assert [name for name in names if f"### {name}\n\n```python\n{name}(\n" not in page] == []
    assert "`frame()`\n:   Returns a frame with a line for each row and column" in page
    for code in re.findall(r"```python\n(cse\..*?) -> .*?```", page, re.DOTALL):
        compile(re.sub(r"^cse[\w.]*", "def f", code) + ": ...", "signature", "exec")


def test_the_picture_of_a_sweep_names_modules_and_the_memory_that_they_ask_for() -> None:
    picture = (DOCS / "figures" / "data_flow.svg").read_text(encoding="utf8")
    modules = re.findall(r'class="module"[^>]*>([\w.]+)<', picture)
    assert len(modules) == 19 and [name for name in modules if importlib.util.find_spec(name) is None] == []
    assert picture.count(f">{GROUP_GB} GB<") == 2 and picture.count(f">{WORKER_GB} GB<") == 4


def test_links_of_the_repository_become_links_of_the_site() -> None:
    def moved(text: str, page: str) -> str:
        return repository.for_the_site(text, page)

    assert moved("[a](../CONTRIBUTING.md#tests)", "index.md") == "[a](project/CONTRIBUTING.md#tests)"
    assert moved("[a](docs/start.md) [b](LICENSE)", "project/README.md") == "[a](../start.md) [b](LICENSE.md)"
    assert moved("[a](../../cse/)", "results/words.md") == "[a](../project/cse/index.md)"
    kept = "[a](#here) [b](none.md) [c](https://x.org/a)\n```\n[d](../README.md)\n```\n"
    assert moved(kept, "start.md") == kept
    chart = "```mermaid\nflowchart TD\n  cse.cli --> cse.doctor & cluster.launch\n```"
    assert moved(chart, "project/README.md").endswith("| `cse.cli` | `cse.doctor`, `cluster.launch` |")


def test_every_page_of_results_is_in_the_navigation() -> None:
    """Without it a strict build ends, and a page that is only linked is one that nobody finds."""
    listed = re.findall(r"'(results/[^']+\.md)'", str(results.nav()))
    assert sorted(listed) == sorted(p.relative_to(DOCS).as_posix() for p in (DOCS / "results").rglob("*.md"))
    titles = [next(iter(entry)) for entry in results.nav() if isinstance(entry, dict)]
    assert titles[:2] == ["Tables of the shipped encoders", "Tables from a card"] and titles[-1] == "Runs as bundles"


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """The site in this folder, as GitHub Pages gets it; skips where mkdocs-material is absent."""
    pytest.importorskip("material", reason=HINT)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "CSE_TABLES": "tables/"}
    return subprocess.run(command, cwd=REPO, env=environment, capture_output=True, text=True, timeout=280)


def test_the_site_builds_strictly_and_fetches_nothing(tmp_path: Path) -> None:
    done = build(tmp_path)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert (tmp_path / "llms.txt").read_text(encoding="utf8") == LLMS
    assert json.loads((tmp_path / "commands.json").read_text(encoding="utf8"))["commands"]
    assert not [path for path in tmp_path.rglob("*.py") if path.is_file()] and not (tmp_path / "hooks").exists()
    texts = {path: path.read_text(encoding="utf8") for path in tmp_path.rglob("*.html")}
    fetched = re.compile(
        r"<(?:(?:script|img|iframe|source)[^>]* src|link(?![^>]*canonical)[^>]* href)=\"?(?:https?:)?//"
    )
    assert len(texts) > 80 and [path for path, text in texts.items() if fetched.search(text)] == []
    assert "<code>cse plan FILE|DIR|" in texts[tmp_path / "commands" / "index.html"]
    entries = json.loads((tmp_path / "search" / "search_index.json").read_text(encoding="utf8"))["docs"]
    places = {entry["location"].partition("#")[0] for entry in entries}
    assert {"glossary/", "verdicts/", "results/card/"} <= places, "a search finds pages"
    assert [place for place in places if place.startswith("project/")] == [], "and no file of the repository"
    home = texts[tmp_path / "index.html"]
    (first, *_) = re.findall(r'<img [^>]*src="([^"]+)"', home)
    assert first == "figures/table.png" and 'href="tables/"' in home
