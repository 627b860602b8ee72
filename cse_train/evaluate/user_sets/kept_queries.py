"""Files with the value of each query of a retrieval set, beside the cosines that a run keeps."""

import re
import zipfile
from pathlib import Path

import numpy as np

from cse_train.files import replace_file


def save_queries(folder: Path, column: str, values_Q: np.ndarray, data_hash: str) -> None:
    """Writes the queries' values of one column; `values_Q` times 100, in the order of the set with hash `data_hash`."""

    def write(aside: Path) -> None:
        with aside.open("wb") as file:
            np.savez(file, values=values_Q, data_hash=np.array(data_hash))

    replace_file(_file(folder, column), write)


def read_queries(folder: Path, column: str, data_hash: str) -> np.ndarray | None:
    """Reads the queries' values, float64 [queries]; None where the file is absent, damaged or of other data."""
    try:
        with np.load(_file(folder, column), allow_pickle=False) as file:
            return np.asarray(file["values"], dtype=float) if str(file["data_hash"]) == data_hash else None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _file(folder: Path, column: str) -> Path:
    return folder / f"queries-{re.sub('[^A-Za-z0-9_]+', '-', column)}.npz"
