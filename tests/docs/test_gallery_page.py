"""docs/results/gallery.md is what the bundles say."""

import pytest

from docs.gallery_page import text
from docs.methods_page import folder


@pytest.mark.slow
def test_the_published_file_is_current() -> None:
    published = (folder() / "results" / "gallery.md").read_text(encoding="utf8")
    assert text() == published, "run `python -m docs.gallery_page` and commit docs/results/gallery.md"
