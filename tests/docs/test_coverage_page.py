"""docs/coverage.md is what the tables and the suites say today."""

from docs.coverage_page import text
from docs.methods_page import folder


def test_the_published_file_is_current() -> None:
    published = (folder() / "coverage.md").read_text(encoding="utf8")
    assert text() == published, "run `python -m docs.coverage_page` and commit docs/coverage.md"
