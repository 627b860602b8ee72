"""Encoders that are shipped no more: the line for a setting that names one. Ledgers and bundles of before name them."""

NAMES = ("wiki-l1-h64", "wiki-l2-h128", "wiki-l4-h128")
FIRST_GENERATOR = "wiki-l1-h64"
"""Default of SimCSE's and ESimCSE's option `generator`, which few of their runs read.

The signature of every run that reads none holds this name, so it stays: any other would train all of them again. A run
that fills words names an encoder that is shipped, and gets the line below where it does not.
"""
GONE = "gone encoder: "


def find_gone(setting: str, name: str) -> str | None:
    """Returns a line for a setting that names an encoder which is shipped no more; None for any other name."""
    if name not in NAMES:
        return None
    heir = name.replace("wiki-", "words-")
    return f"{GONE}{setting}={name} is shipped no more; give {heir}, which stands in its place"
