"""The face: what a person types or imports, put together from the other four packages."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("cse-search")
except PackageNotFoundError:  # a checkout on PYTHONPATH that was never installed
    __version__ = "unknown"
