"""One site for all tests of this folder, made through the project's own code from a ledger without any training."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cse.site.content import Site
from cse.site.files import files
from cse.site.gallery import gather
from tests.chromium import chromium
from tests.site_ledger import filled

FOREIGN = '<script>document.title = 1</script> & "quotes"'
"""A text that would run, or break out of an attribute."""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    ledger = filled(tmp_path_factory.mktemp("rows") / "ledger.db")
    made = gather(ledger, [f"runs {FOREIGN}.jsonl.gz"])
    ledger.close()
    return made


@pytest.fixture(scope="session")
def folder(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site on disk."""
    root = tmp_path_factory.mktemp("site")
    for name, text in files(site):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text, encoding="utf8")
    return root


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium(1280, 1000) as opened:
        opened.set_page_load_timeout(600)
        opened.set_script_timeout(600)
        yield opened
