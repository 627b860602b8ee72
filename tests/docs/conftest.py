"""Tests of pages that sides write: not collected where such a side has been taken off."""

from tests.sides import CSE

NEEDED = {
    "test_bundles.py": "bundles",
    "test_docs_site.py": "compare",
    "test_docs_site_browser.py": "compare",
    "test_gallery_page.py": "site",
    "test_public_runs_page.py": "importers",
}
"""File -> the side whose code it imports."""
collect_ignore = [file for file, side in NEEDED.items() if not (CSE / side).is_dir()]
