"""What the pages say exists: links, commands with their options, modules, keys of a space; and the rooms' picture."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.main import get_command

import cse
from cse.cli import app
from cse_train import fields, methods
from cse_train.config import TrainConfig
from search_spaces.catalog import load_space
from search_spaces.identity.method_code import read_released
from search_spaces.strict_yaml import parse_yaml
from tests import test_architecture as architecture

REPO = Path(__file__).resolve().parents[2]
PAGES = [REPO / "README.md", REPO / "CONTRIBUTING.md", REPO / "SECURITY.md", *sorted((REPO / "docs").glob("*.md"))]
TEXTS = {page.relative_to(REPO).as_posix(): page.read_text(encoding="utf8") for page in PAGES}
SPACES = TEXTS["docs/spaces.md"]
EVERY = pytest.mark.parametrize("page", TEXTS)


def code(text: str) -> Iterator[str]:
    """Code spans, and the lines of code blocks, fenced or indented; `\\|` of a table is a bar."""
    fenced = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    yield from (line for block in fenced for line in block.splitlines())
    rest = re.sub(r"^```\w*\n.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from (line.strip() for line in rest.splitlines() if line.startswith("    "))
    yield from (span.replace("\\|", "|") for span in re.findall(r"`([^`\n]+)`", rest))


FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """The anchors that GitHub makes of the headings; the second of two equal ones ends in -1."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    shown = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    names = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in shown]
    again = [names[:i].count(name) for i, name in enumerate(names)]
    return {f"{name}-{count}" if count else name for name, count in zip(names, again, strict=True)}


def test_readme_is_short_and_begins_with_a_picture_and_two_commands() -> None:
    lines = TEXTS["README.md"].splitlines()
    assert len(lines) <= 100
    assert any(line.startswith("<img ") for line in lines[:12]) and "make demo" in lines[:8]


FIGURE = re.compile(r"(?<![\w.,-])(?:\d+\.\d+%?|\d{1,3}(?:,\d{3})+|\d{2,}(?: %)?)(?![\w-])")
"""Numbers of two digits and more, and decimals."""
PUBLISHED = len(list((REPO / "search_spaces" / "papers").glob("*.yaml")))


def find_unsaid(line: str) -> set[str]:
    """The figures of a line of README that none of the pages has to which the line links; the files are counted."""
    pages = [target for target in re.findall(r"\]\((docs/[^)#]+\.md)", line) if (REPO / target).is_file()]
    said = {number for page in pages for number in FIGURE.findall((REPO / page).read_text(encoding="utf8"))}
    shown = re.sub(r"`[^`]*`|\]\([^)]*\)", "", line).replace(f"[{PUBLISHED} tables and figures", "")
    return {number for number in FIGURE.findall(shown) if number not in said}


def test_each_figure_of_readme_stands_in_the_page_to_which_its_line_links() -> None:
    """Tests of their own hold the pages to the runs; tests/docs/test_long_snippets.py makes its table again."""
    text = re.sub(r"^```.*?^```", "", TEXTS["README.md"], flags=re.MULTILINE | re.DOTALL)
    lines = [line for line in text.splitlines() if "](docs/" in line and "Python 3" not in line]
    assert sum(len(FIGURE.findall(line)) for line in lines) > 16
    assert {line: numbers for line in lines if (numbers := find_unsaid(line))} == {}
    assert find_unsaid("75.12 of 53 stands [there](docs/results/public_runs.md)") == {"75.12", "53"}


def broken(page: Path) -> list[str]:
    """The links of a page, pictures too, that lead to no file, or to no heading of it."""
    links = re.findall(r'(?:\]\(|href="|src=")([^)\s"]+)[)"]', FENCE.sub("", page.read_text(encoding="utf8")))
    return [link for link in links if "://" not in link and not _leads(page, *link.partition("#")[::2])]


def _leads(page: Path, name: str, anchor: str) -> bool:
    target = page.parent / name if name else page
    return target.exists() and (not anchor or anchor in anchors(target.read_text(encoding="utf8")))


def test_every_link_leads_somewhere() -> None:
    pages = [*REPO.glob("*.md"), *REPO.glob("docs/**/*.md"), *REPO.glob("cse_train/weights/*/*.md")]
    assert len(pages) > 40
    assert {str(page): links for page in pages if (links := broken(page))} == {}


def test_a_broken_link_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    fence = "```\n# No [x](none.md)\n```\n"
    page.write_text(
        f'# A b?\n# A b\n{fence}[a](#a-b) [b](#a-b-1) [c](#no) [d](no.md) [e](page.md#a)\n<img src="no.png">\n'
    )
    assert broken(page) == ["#no", "no.md", "page.md#a", "no.png"]


def test_the_index_lists_every_page_and_asks_a_question_of_each() -> None:
    index = TEXTS["docs/index.md"]
    pages = {page.removeprefix("docs/") for page in TEXTS if page.startswith("docs/")} - {"index.md"}
    assert [page for page in sorted(pages) if f"]({page})" not in index] == []
    questions = re.findall(r"^\| (.*?) \| \[", index, re.MULTILINE)
    assert len(questions) >= len(pages) and all(question.endswith("?") for question in questions)


def commands_of(page: str) -> Iterator[tuple[str, list[str]]]:
    """Each `cse COMMAND ...` of a page with its words."""
    for line in code(TEXTS[page]):
        plain = line.removeprefix("$ ").removeprefix(".venv/bin/").partition("#")[0]
        if plain.startswith("cse ") and not plain.startswith(("cse COMMAND", "cse -")):
            yield line, shlex.split(plain)[1:]


@EVERY
def test_every_command_exists_with_its_options(page: str) -> None:
    for line, words in commands_of(page):
        assert words[0].rstrip(",") in app.command_files(), line
        options = [word.split("=")[0] for word in words if word.startswith("-")]
        if options:
            assert set(options) <= options_of(words[0]), line


def options_of(name: str, cache: dict[str, set[str]] = {}) -> set[str]:  # noqa: B006
    """The options of a command."""
    if name not in cache:
        group: Any = get_command(app.app)
        with typer.Context(group) as context:
            command = group.get_command(context, name)
        cache[name] = {option for parameter in command.params for option in parameter.opts} | {"--help", "--debug"}
    return cache[name]


def test_the_page_of_commands_names_every_command() -> None:
    named = set(re.findall(r"`cse ([\w-]+)", TEXTS["docs/commands.md"]))
    assert named >= set(app.command_files())


@EVERY
def test_every_module_and_file_that_is_named_exists(page: str) -> None:
    ours = "|".join((*architecture.PACKAGES, "benchmarks"))
    for word in code(TEXTS[page]):
        if match := re.fullmatch(rf"(?:python -m )?((?:{ours})(?:\.[a-z]\w*)+)(?: -.*)?", word.replace(".yaml", "")):
            path, top = REPO / match[1].replace(".", "/"), match[1].removeprefix("cse.")
            assert path.is_dir() or path.with_suffix(".py").is_file() or top in dir(cse), word
        if re.fullmatch(rf"(?:{ours}|docs|tests)/[\w./]*", word):
            named = [part for part in Path(word).parts if not re.search("NAME|FOLDER|ID", part)]
            assert REPO.joinpath(*named).exists(), word


def picture() -> set[tuple[str, str]]:
    """The arrows of the rooms' picture."""
    (chart,) = re.findall(r"```mermaid\n(.*?)```", TEXTS["docs/data_flow.md"], re.DOTALL)
    arrows = set()
    for left, right in re.findall(r"^ *([\w. &]+?) --> ([\w. &]+)$", chart, re.MULTILINE):
        arrows |= {(one.strip(), other.strip()) for one in left.split("&") for other in right.split("&")}
    return arrows


def drawn(room: str) -> str:
    """The node of a room: `cse_train` is one."""
    return "cse_train" if architecture.within(room, "cse_train") else room


def without_shortcuts(edges: Mapping[str, set[str]]) -> set[tuple[str, str]]:
    """The edges of a graph without circles that do not follow from others."""

    def reach(node: str) -> set[str]:
        return edges[node].union(*(reach(other) for other in edges[node]))

    return {
        (node, other)
        for node, others in edges.items()
        for other in others
        if not any(other in reach(between) for between in others)
    }


def test_the_picture_shows_the_rooms_and_their_doors() -> None:
    edges: dict[str, set[str]] = {}
    for room, imports in architecture.ROOMS.items():
        if room not in ("cse.cli", "cluster", "analysis", "cse", "cse.__main__", *architecture.SIDES):
            edges.setdefault(drawn(room), set()).update({drawn(other) for other in imports.split()} - {drawn(room)})
    edges["cse.cli"] = set(edges)
    edges |= {side: {"cse.cli"} for side in architecture.SIDES}
    assert picture() == without_shortcuts(edges)


def properties(schema: Mapping[str, Any], node: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a node of a JSON Schema, through references and unions."""
    if "$ref" in node:
        return properties(schema, schema["$defs"][node["$ref"].removeprefix("#/$defs/")])
    parts = [*node.get("anyOf", ()), *node.get("allOf", ()), node.get("properties", {})]
    return {key: value for part in parts[:-1] for key, value in properties(schema, part).items()} | parts[-1]


def test_every_key_of_a_space_is_explained() -> None:
    schema = json.loads((REPO / "search_spaces" / "schema.json").read_text(encoding="utf8"))
    top = properties(schema, schema)
    keys = [*top, *properties(schema, top["search"]), *properties(schema, top["paper"])]
    keys += [f"train.{name}" for name in fields.hints(TrainConfig)]
    assert [key for key in keys if f"`{key}`" not in SPACES] == []


def loaded(folder: Path, text: str) -> None:
    """Read a space as a command does; ConfigError where it is not valid."""
    file = folder / "mine.yaml"
    file.write_text(text, encoding="utf8")
    load_space(str(file))


@pytest.mark.parametrize("method", read_released())
def test_the_page_gives_every_option_of_a_method_with_its_default(method: str) -> None:
    (block,) = re.findall(rf"^\*\*{method}\*\*\n\n```yaml\n(.*?)^```", SPACES, re.MULTILINE | re.DOTALL)
    shown = parse_yaml(block, "docs/spaces.md")
    config = methods.config_class(method)()
    assert shown == {f"method.{name}": getattr(config, name) for name in fields.hints(type(config))}


@pytest.mark.parametrize("heading", ["Top level", "`train.*`: settings of every method"])
def test_the_examples_of_the_tables_are_valid(heading: str, tmp_path: Path) -> None:
    section = SPACES.split(f"## {heading}\n")[1].split("\n## ")[0]
    examples = [row.replace("\\|", "|") for row in re.findall(r"\| `([^`]+)` \|$", section, re.MULTILINE)]
    assert len(examples) > 10
    for example in examples:
        given = parse_yaml(example, "docs/spaces.md")
        space: dict[str, Any] = {"version": 1, "id": "mine", "method": "esimcse"}
        space |= {"set": given} if example.startswith("train.") else given
        if "cells" not in given:
            space.setdefault("space", {"method.dup_rate": {"grid": [0.16, 0.32]}})
        if "forgotten" in given:
            space["evaluate"] = list(given["forgotten"])
        if "trainer" in given:
            del space["method"]
            space["space"] = {"learning_rate": {"grid": [0.16, 0.32]}}
            (tmp_path / given["trainer"]["script"]).touch()
        loaded(tmp_path, yaml.safe_dump(space))


def test_every_line_that_is_explained_is_one_that_the_code_says() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", TEXTS["docs/troubleshooting.md"], re.MULTILINE)
    packages = ("analysis", "cluster", "cse", "cse_train", "search_spaces")
    said = "\n".join(path.read_text(encoding="utf8") for name in packages for path in (REPO / name).rglob("*.py"))
    assert len(rows) > 10 and [row for row in rows if not re.search(rf'"{re.escape(row)}\b', said)] == []
