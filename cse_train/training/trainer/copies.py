"""Imports the user's modules from the sweep's copy of their code, under the paths of the originals.

What a package reads beside its code, and its compiled modules, are not in the copy; Python finds them as usual.
"""

import importlib.abc
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType
from typing import Any


class CopiedModules(importlib.abc.MetaPathFinder):
    """Import hook for modules that were copied, unless Python would find other files than the copied ones."""

    def __init__(self, root: str, places: Mapping[str, str]) -> None:
        """Creates the hook; `places`: top-level module -> the folder from which it was copied into `root`."""
        self._root, self._places = Path(root), places

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        parts = name.split(".")
        if parts[0] not in self._places:
            return None
        folders = [folder for folder in path or sys.path if not Path(folder).is_relative_to(self._root)]
        finders: list[Any] = [finder for finder in sys.meta_path if finder is not self]
        specs = (
            PathFinder.find_spec(name, folders) if finder is PathFinder else finder.find_spec(name, path, target)
            for finder in finders
        )  # fmt: skip
        spec: ModuleSpec | None = next(filter(None, specs), None)
        for file in (Path(*parts).with_suffix(".py"), Path(*parts, "__init__.py")):
            copy, original = self._root / file, Path(self._places[parts[0]]) / file
            if spec is None and copy.is_file():
                return spec_from_file_location(name, copy)
            if spec and spec.origin and copy.is_file() and Path(spec.origin).resolve() == original.resolve():
                spec.loader = _CopyLoader(name, spec.origin, copy)
                return spec
        return None


class _CopyLoader(SourceFileLoader):
    def __init__(self, name: str, path: str, copy: Path) -> None:
        super().__init__(name, path)
        self._copy = copy

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._copy.read_bytes(), self.path)
