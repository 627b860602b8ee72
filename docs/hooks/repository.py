"""Files outside of docs/ to which a page links, as pages of the site; and links that work there as on GitHub.

The site's search passes over them: who asks for a word wants a page, not a test that has it.
"""

import ast
import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
DOCS, PROJECT = "docs/", "project/"
LINK = re.compile(r"(?<=\]\()[^)\s:]+(?=\))")
FENCE = re.compile(r"^(```.*?^```[ ]*$)", re.MULTILINE | re.DOTALL)
CHART = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def pages() -> dict[str, str]:
    """Path on the site -> text, of every file and folder that the docs link to, and that these link to."""
    texts = {path.relative_to(REPO).as_posix(): path.read_text(encoding="utf8") for path in REPO.glob("docs/**/*.md")}
    made: dict[str, str] = {}
    while texts:
        name, text = texts.popitem()
        for target in _targets(text, name):
            page = on_the_site(target)
            if page.startswith(PROJECT) and page not in made:
                made[page] = _page(target)
                if target.endswith(".md"):
                    texts[target] = made[page]
    return made


def for_the_site(markdown: str, page: str) -> str:
    """A page's text with links to other pages of the site, and its charts as tables: drawing them takes a script."""
    name = page.removeprefix(PROJECT) if page.startswith(PROJECT) else DOCS + page
    parts = FENCE.split(CHART.sub(lambda chart: as_table(chart[1]), markdown))
    parts[::2] = [LINK.sub(lambda link: _moved(link[0], name, page), part) for part in parts[::2]]
    return "".join(parts)


def on_the_site(name: str) -> str:
    """Where the site has a file: `docs/start.md` is `start.md`, `Makefile` is `project/Makefile.md`."""
    if name.startswith(DOCS):
        return name.removeprefix(DOCS)
    if (REPO / name).is_dir():
        return f"{PROJECT}{name}/index.md"
    return PROJECT + (name if name.endswith(".md") else f"{name}.md")


def as_table(chart: str) -> str:
    """Arrows of a mermaid chart, `a --> b & c`, a row for each node that has some."""
    arrows = re.findall(r"^ *([\w.]+) --> (.+)$", chart, re.MULTILINE)
    rows = (
        f"| `{room}` | {', '.join(f'`{other.strip()}`' for other in others.split('&'))} |" for room, others in arrows
    )
    return "\n".join(["| room | what it may import |", "|---|---|", *rows])


def _targets(text: str, name: str) -> Iterator[str]:
    """Files and folders of the repository that a file's links name."""
    for part in FENCE.split(text)[::2]:
        for link in LINK.findall(part):
            path = link.partition("#")[0]
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
            if not target.startswith("..") and (REPO / target).exists():
                yield target


def _moved(link: str, name: str, page: str) -> str:
    path, mark, anchor = link.partition("#")
    target = next(_targets(f"]({path})", name), None) if path else None
    return link if target is None else posixpath.relpath(on_the_site(target), posixpath.dirname(page)) + mark + anchor


def _page(name: str) -> str:
    path = REPO / name
    if path.is_dir():
        return _listing(path)
    text = path.read_text(encoding="utf8")
    if name.endswith(".md"):
        return text
    return f"# {name}\n\n````{path.suffix.removeprefix('.') or 'text'}\n{text}````\n"


def _listing(folder: Path) -> str:
    """What a folder of code is for, and what each module of it is for, by their docstrings."""
    modules = sorted(path for path in folder.rglob("*.py") if path.name != "__init__.py")
    package = folder / "__init__.py"
    rows = (f"| `{path.relative_to(folder)}` | {_purpose(path).replace('|', '&#124;')} |" for path in modules)
    head = [f"# {folder.relative_to(REPO)}{os.sep}", "", _purpose(package) if package.exists() else "", ""]
    return "\n".join([*head, "| module | what it is for |", "|---|---|", *rows, ""])


def _purpose(file: Path) -> str:
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf8"))) or "").partition("\n")[0]
