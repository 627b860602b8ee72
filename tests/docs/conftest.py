"""Tests of pages that sides write, or that name commands of theirs: not collected where such a side is taken off."""

from tests.sides import CSE, SIDES

NEEDED = {
    "test_bundles.py": "bundles",
    "test_docs_site.py": "compare",
    "test_docs_site_browser.py": "compare",
    "test_gallery_page.py": "site",
    "test_public_runs_page.py": "importers",
    "test_trackers.py": "importers",
}
"""File -> the side whose code it imports."""
absent = {side for side in SIDES if not (CSE / side).is_dir()}
collect_ignore = [file for file, side in NEEDED.items() if side in absent]
if absent:  # pages of the whole house
    collect_ignore += ["test_pages.py", "test_snippets.py"]
