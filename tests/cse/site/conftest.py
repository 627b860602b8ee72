"""One site for all tests of this folder, made through the project's own code from a ledger without any training."""

from pathlib import Path

import pytest

from cse.site.content import Site
from cse.site.files import files
from cse.site.gallery import gather
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
