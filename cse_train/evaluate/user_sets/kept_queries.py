"""What each query of a retrieval set gave, in a file beside the kept cosines of a run."""

import re
import zipfile
from pathlib import Path

import numpy as np

from cse_train.files import replace_file


def save_queries(folder: Path, column: str, values_Q: np.ndarray, data_hash: str) -> None:
    """Write the file of one column of a set with this content; `values_Q` times 100, in the order of the set."""

    def write(aside: Path) -> None:
        with aside.open("wb") as file:
            np.savez(file, values=values_Q, data_hash=np.array(data_hash))

    replace_file(_file(folder, column), write)


def read_queries(folder: Path, column: str, data_hash: str) -> np.ndarray | None:
    """float64 [queries] as it was kept; None where it is not, for another set's file and a damaged one."""
    try:
        with np.load(_file(folder, column), allow_pickle=False) as file:
            return np.asarray(file["values"], dtype=float) if str(file["data_hash"]) == data_hash else None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _file(folder: Path, column: str) -> Path:
    return folder / f"queries-{re.sub('[^A-Za-z0-9_]+', '-', column)}.npz"
