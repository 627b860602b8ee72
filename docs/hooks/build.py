"""What `mkdocs build` does beside rendering docs/: pages of reference, files of the repository, links to both.

Generated pages exist in the build alone, so that none of them can be older than the code.
"""

import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File
from mkdocs.structure.nav import Link

REPO = Path(__file__).resolve().parents[2]
WIDE_TABLE = re.compile(r"<table(?=>)")
CODE_BLOCK = re.compile(r"(<pre>(?:<span></span>)?<code>)(.*?)(</code></pre>)", re.DOTALL)
sys.path.insert(0, str(REPO))  # the pages are about this checkout, whatever is installed

from docs.hooks import commands, python_api, repository, results, space_keys  # noqa: E402


def generated() -> dict[str, str]:
    """Path on the site -> text, of everything that is made from the code."""
    pages = {f"reference/{page}": text for page, text in commands.pages().items()}
    return pages | {
        "reference/space_keys.md": space_keys.page(),
        "reference/python.md": python_api.page(),
        "commands.json": commands.as_json(),
    }


def on_config(config: Any) -> Any:
    """Fills the navigation where it names a folder: `reference/commands/`, `results/`."""
    config.nav = _filled(config.nav)
    return config


def on_nav(nav: Any, config: Any, files: Any) -> Any:
    """The site of tables is built by `cse site`, beside this one; without it a link would lead nowhere."""
    if config.extra["tables"]:
        nav.items.append(Link("All tables", config.extra["tables"]))
    return nav


def on_files(files: Any, config: Any) -> Any:
    """Adds the generated pages, and a page for each file outside of docs/ that a page links to."""
    for path, text in {**generated(), **repository.pages()}.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links of GitHub become links of the site, whose search passes over the repository's own files."""
    if page.file.src_uri.startswith(repository.PROJECT):
        page.meta["search"] = {"exclude": True}
    return repository.for_the_site(markdown, page.file.src_uri)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """GitHub needs a backslash before a pipe in a table's cell; in code the site would show it.

    What may be wider than a phone is reached by the tab key, so that arrows scroll it. In a block of code that is its
    text: the theme's script takes the attribute from the block itself where nothing hovers, as on a phone.
    """
    html = WIDE_TABLE.sub(r'\g<0> tabindex="0"', html.replace("\\|", "|"))
    return CODE_BLOCK.sub(r'\1<span tabindex="0">\2</span>\3', html)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """The theme's dialog has no name."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')


def _filled(entries: list[Any]) -> list[Any]:
    return list(itertools.chain.from_iterable(map(_entry, entries)))


def _entry(entry: Any) -> Iterator[Any]:
    if entry == "reference/commands/":
        yield from ({heading: pages} for heading, pages in commands.nav().items())
    elif entry == results.FOLDER:
        yield from results.nav()
    elif isinstance(entry, dict):
        yield {title: _filled(inner) if isinstance(inner, list) else inner for title, inner in entry.items()}
    else:
        yield entry
