"""Search spaces: the YAML files of tables, searches and profiles, and the code that reads them."""

__all__ = [
    "catalog",
    "cell_names",
    "cells",
    "domains",
    "identity",
    "keys",
    "paper",
    "parse",
    "profiles",
    "space",
    "strict_yaml",
    "trainer",
    "user_data",
]
