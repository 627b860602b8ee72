"""The values of a pickled object, read without running anything that the file names."""

import io
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path

PICKLE_IN_ZIP = "/data.pkl"
"""Where torch.save puts its pickle."""


class _Inert:
    """Stands in for every class and function that a pickle names: it keeps what it is called with, and does nothing."""

    values: tuple[object, ...] = ()
    fields: Mapping[object, object] = {}

    def __new__(cls, *values: object, **_: object) -> "_Inert":
        made = super().__new__(cls)
        made.values = values
        return made

    def __setstate__(self, state: object) -> None:
        self.fields = state if isinstance(state, dict) else {}

    def append(self, _: object) -> None:
        """A pickle fills lists of a class of their own so."""

    def __setitem__(self, _: object, __: object) -> None:
        """A pickle fills mappings of a class of their own so."""


class _Reader(pickle.Unpickler):
    """Imports nothing: a file from elsewhere may name any function."""

    def find_class(self, module_name: str, global_name: str) -> type[_Inert]:
        return _Inert

    def persistent_load(self, pid: object) -> None:
        """Tensors stay unread."""


def read_fields(file: Path) -> dict[str, object]:
    """The fields of the object in a file of torch.save; an enumeration's member is its value. ValueError for others."""
    data = file.read_bytes()
    try:
        if zipfile.is_zipfile(io.BytesIO(data)):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                data = archive.read(next(name for name in archive.namelist() if name.endswith(PICKLE_IN_ZIP)))
        made = _Reader(io.BytesIO(data)).load()
    except Exception as error:  # a damaged file fails in any way
        raise ValueError(f"it is no pickle: {error}") from error
    if not isinstance(made, _Inert):
        raise ValueError("it holds no object with fields")
    return {str(name): _plain(value) for name, value in made.fields.items()}


def _plain(value: object) -> object:
    return value.values[0] if isinstance(value, _Inert) and len(value.values) == 1 else value
