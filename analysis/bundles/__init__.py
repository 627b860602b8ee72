"""The file of `cse bundle`, read: its form, its header and its records, checked as a stranger's."""

__all__ = ["errors", "header", "reader"]
