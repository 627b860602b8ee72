"""Reads the fields of a pickled object without importing or running anything that the file names."""

import io
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path

PICKLE_IN_ZIP = "/data.pkl"
"""End of the name of the pickle within a file of torch.save."""


def read_fields(file: Path) -> dict[str, object]:
    """Returns the fields of the object in a file of torch.save; enumeration members become their values.

    Raises ValueError for other files.
    """
    data = file.read_bytes()
    try:
        if zipfile.is_zipfile(io.BytesIO(data)):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                data = archive.read(next(name for name in archive.namelist() if name.endswith(PICKLE_IN_ZIP)))
        root = _Reader(io.BytesIO(data)).load()
    except Exception as error:  # a damaged file fails in any way
        raise ValueError(f"it is no pickle: {error}") from error
    if not isinstance(root, _Inert):
        raise ValueError("it holds no object with fields")
    return {str(name): _plain(value) for name, value in root.fields.items()}


class _Inert:
    """Placeholder for every class and function that a pickle names: keeps its arguments, and does nothing."""

    values: tuple[object, ...] = ()
    fields: Mapping[object, object] = {}

    def __new__(cls, *values: object, **_: object) -> "_Inert":
        placeholder = super().__new__(cls)
        placeholder.values = values
        return placeholder

    def __setstate__(self, state: object) -> None:
        self.fields = state if isinstance(state, dict) else {}

    def append(self, _: object) -> None:
        """Ignores an item: pickle appends to lists of a foreign class with this method."""

    def __setitem__(self, _: object, __: object) -> None:
        """Ignores an item: pickle fills mappings of a foreign class with this method."""


class _Reader(pickle.Unpickler):
    """Unpickler that imports nothing, since a file from elsewhere may name any function."""

    def find_class(self, module_name: str, global_name: str) -> type[_Inert]:
        return _Inert

    def persistent_load(self, pid: object) -> None:
        """Returns None for each tensor, which stays unread."""


def _plain(value: object) -> object:
    return value.values[0] if isinstance(value, _Inert) and len(value.values) == 1 else value
