"""Files of the user's own that a run reads (training text, sets, encoders), and how a path differs from a name."""

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

MISSING, CHANGED = "missing input: ", "changed input: "
"""First words of the reason of a run that failed for its input; the run itself is not at fault and is tried again."""
HUB_PREFIX = "hf:"
"""Prefix in the name of a data set of the Hugging Face hub."""
TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")
PLAIN_SUFFIX = ".txt"
PACKED_SUFFIX = ".gz"
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@+-]{0,63}")
"""Pattern of a user file's name, a column in tables; it has no comma and no colon, which separate names of suites."""

Role = Literal["corpus", "dev", "test"]
"""Use of a user's file: training text; the set that picks the checkpoint; a set that scores it."""
Kind = Literal["ratings", "labels", "retrieval"]
"""Content of a user's set: rated pairs, labelled sentences, or documents judged for queries."""
Metric = Literal["ndcg@10", "mrr@10", "recall@1", "recall@10", "map@100"]
OnEmpty = Literal["skip", "refuse"]
"""Treatment of rows of training text that have no word."""


@dataclass(frozen=True, kw_only=True)
class UserFile:
    """Location of a user's file and how it is read; only its content, never this, is part of a run's identity."""

    name: str
    """Name of the file's column in tables, or of the training text in `train.corpus`."""
    file: str
    """Absolute path of a file or of a Hugging Face data set's folder; or hf:NAME."""
    role: Role
    kind: Kind | None = None
    """Kind of a set; None to infer it from the columns."""
    columns: tuple[tuple[str, str], ...] = ()
    """Pairs (role of a column, such as sentence1; the file's name for it); roles not listed go by their usual names."""
    split: str | None = None
    """Split of a Hugging Face data set that has several; None for any other file."""
    quotes: bool = True
    """True if quotes in CSV and TSV enclose fields, False if they are text."""
    metric: Metric = "ndcg@10"
    """Metric of a retrieval set whose value tables show under the set's name."""
    on_empty: OnEmpty | None = None
    """Treatment of rows of training text without a word.

    None refuses them, except in a plain CSV, whose empty fields are blanks as in SimCSE's release.
    """
    deduplicate: bool = False
    """True if rows of training text that equal an earlier row are left out."""

    @property
    def path(self) -> Path | None:
        """Path of the file or folder; None for a data set of the hub."""
        return None if self.file.startswith(HUB_PREFIX) else Path(self.file)

    @property
    def named(self) -> dict[str, str]:
        """Role of a column -> the file's name for it, for the roles that `columns` lists."""
        return dict(self.columns)

    def text(self) -> str:
        """Returns the file as a command line takes it: its path if that says everything, else a JSON mapping."""
        settings = {
            **({} if self.name == make_name(self.file) else {"name": self.name}),
            **({"kind": self.kind} if self.kind else {}),
            **({"columns": self.named} if self.columns else {}),
            **({"split": self.split} if self.split else {}),
            **({} if self.quotes else {"quotes": False}),
            **({} if self.metric == UserFile.metric else {"metric": self.metric}),
            **({"on_empty": self.on_empty} if self.on_empty else {}),
            **({"deduplicate": True} if self.deduplicate else {}),
        }
        return json.dumps({"file": self.file, **settings}, ensure_ascii=False) if settings else self.file


def ending(name: str) -> str:
    """Returns a file name's ending in lower case, without .gz: `.csv` for a.csv, a.CSV and a.csv.gz."""
    return Path(name.lower().removesuffix(PACKED_SUFFIX)).suffix


def stem(file: str) -> str:
    """Returns a file's name without folders and endings; for a data set of the hub the last part of its name."""
    name = file.removeprefix(HUB_PREFIX).rstrip("/").rpartition("/")[2]
    name = name[: -len(PACKED_SUFFIX)] if name.lower().endswith(PACKED_SUFFIX) else name
    end = ending(name)
    return name[: -len(end)] if end in (*TABLE_SUFFIXES, PLAIN_SUFFIX) else name


def make_name(file: str) -> str:
    """Returns the default name of a file's column: its stem, with `_` for characters that no column's name may have."""
    return re.sub(r"[^A-Za-z0-9_.@+-]+", "_", stem(file)).lstrip("_")


def is_file_name(text: str) -> bool:
    """Returns True if a text means a file, not a name: it has a file's ending, or a folder in it."""
    return not text.startswith(HUB_PREFIX) and (
        ending(text) in (*TABLE_SUFFIXES, PLAIN_SUFFIX) or text.startswith(("/", "./", "../", "~"))
    )


def map_files(files: Iterable[UserFile]) -> Mapping[tuple[bool, str], UserFile]:
    """Returns (True for training text, name) -> file: a corpus and a set may share a name."""
    return {(file.role == "corpus", file.name): file for file in files}


WEIGHTS = Path(__file__).with_name("weights")
"""Folder of the encoders that come with the package; each is called by the name of its subfolder."""


def absolute_place(text: str, folder: Path) -> str:
    """Returns the absolute path of a file or folder that a text names, relative to `folder`; a name stays a name.

    A text is a path if it begins with /, ./, ../ or ~, or exists. A shipped encoder's name is always a name. Symlinks
    are kept.
    """
    if "/" not in text and (WEIGHTS / text / "config.json").is_file():
        return text
    place = os.path.abspath(folder / os.path.expanduser(text))
    return place if is_path(text) or os.path.exists(place) else text


def is_path(text: str) -> bool:
    """Returns True if a text is written as a path, whether or not anything is there."""
    return text.startswith(("/", "./", "../", "~")) or text in (".", "..")
