"""Files of the user's own that a run reads: training text, sets, encoders; and whether a text is a path or a name."""

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

MISSING, CHANGED = "missing input: ", "changed input: "
"""How the reason begins of a run that failed for an input: it is none of the run's own, and is tried again."""
HUB_PREFIX = "hf:"
"""How the name of a data set of the Hugging Face hub begins."""
TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")
PLAIN_SUFFIX = ".txt"
PACKED_SUFFIX = ".gz"
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@+-]{0,63}")
"""What a column of a table may be called: neither a comma nor a colon, which part names of suites."""

Role = Literal["corpus", "dev", "test"]
"""Training text; the set that picks the checkpoint; a set that scores it."""
Kind = Literal["ratings", "labels", "retrieval"]
"""What a set has: rated pairs, labelled sentences, or documents judged for queries."""
Metric = Literal["ndcg@10", "mrr@10", "recall@1", "recall@10", "map@100"]
OnEmpty = Literal["skip", "refuse"]
"""What becomes of the rows of training text that have no word."""


@dataclass(frozen=True, kw_only=True)
class UserFile:
    """Where a file lies and how it is read. What it holds, never this, is part of a run's identity."""

    name: str
    """The column of tables, or what `train.corpus` is called there."""
    file: str
    """Absolute path of a file or of a Hugging Face data set's folder; or hf:NAME."""
    role: Role
    kind: Kind | None = None
    """None where the columns tell."""
    columns: tuple[tuple[str, str], ...] = ()
    """(What is wanted, as sentence1; the file's name of it); what is not said goes by its usual names."""
    split: str | None = None
    """Of a Hugging Face data set that has several."""
    quotes: bool = True
    """Whether quotes of CSV and TSV enclose fields, or are text."""
    metric: Metric = "ndcg@10"
    """Of a retrieval set: what stands under its name."""
    on_empty: OnEmpty | None = None
    """Of training text; None refuses, but for a plain CSV, whose empty fields are blanks as in SimCSE's release."""
    deduplicate: bool = False
    """Of training text: whether a row that equals an earlier one is left out."""

    @property
    def path(self) -> Path | None:
        """None for a data set of the hub."""
        return None if self.file.startswith(HUB_PREFIX) else Path(self.file)

    @property
    def named(self) -> dict[str, str]:
        """What is wanted -> the file's name of it, as far as that is said."""
        return dict(self.columns)

    def text(self) -> str:
        """What a command line takes for it: the path alone where that says everything, else a mapping."""
        said = {
            **({} if self.name == make_name(self.file) else {"name": self.name}),
            **({"kind": self.kind} if self.kind else {}),
            **({"columns": self.named} if self.columns else {}),
            **({"split": self.split} if self.split else {}),
            **({} if self.quotes else {"quotes": False}),
            **({} if self.metric == UserFile.metric else {"metric": self.metric}),
            **({"on_empty": self.on_empty} if self.on_empty else {}),
            **({"deduplicate": True} if self.deduplicate else {}),
        }
        return json.dumps({"file": self.file, **said}, ensure_ascii=False) if said else self.file


def ending(name: str) -> str:
    """A file's ending in small letters, that of what is packed where it is: `.csv` of a.csv, a.CSV and a.csv.gz."""
    return Path(name.lower().removesuffix(PACKED_SUFFIX)).suffix


def stem(file: str) -> str:
    """A file's name without folders and endings; of a data set of the hub the last part of its name."""
    name = file.removeprefix(HUB_PREFIX).rstrip("/").rpartition("/")[2]
    name = name[: -len(PACKED_SUFFIX)] if name.lower().endswith(PACKED_SUFFIX) else name
    end = ending(name)
    return name[: -len(end)] if end in (*TABLE_SUFFIXES, PLAIN_SUFFIX) else name


def make_name(file: str) -> str:
    """What a file's column is called where nothing says it: the stem, with `_` for what no column's name may have."""
    return re.sub(r"[^A-Za-z0-9_.@+-]+", "_", stem(file)).lstrip("_")


def is_file_name(text: str) -> bool:
    """Whether a text means a file rather than a name: by its ending, or by a folder in it."""
    return not text.startswith(HUB_PREFIX) and (
        ending(text) in (*TABLE_SUFFIXES, PLAIN_SUFFIX) or text.startswith(("/", "./", "../", "~"))
    )


def map_files(files: Iterable[UserFile]) -> Mapping[tuple[bool, str], UserFile]:
    """(Whether it is training text, name) -> file: a corpus and a set may share a name."""
    return {(file.role == "corpus", file.name): file for file in files}


WEIGHTS = Path(__file__).with_name("weights")
"""The encoders that come with the package; each is called by the name of its folder."""


def absolute_place(text: str, folder: Path) -> str:
    """The absolute path of a file or folder that a text names, counted from `folder`; a name as it is.

    A path begins with /, ./, ../ or ~, or is there. A shipped encoder's name is always a name. Symlinks are kept.
    """
    if "/" not in text and (WEIGHTS / text / "config.json").is_file():
        return text
    place = os.path.abspath(folder / os.path.expanduser(text))
    return place if is_path(text) or os.path.exists(place) else text


def is_path(text: str) -> bool:
    """Whether a text is written as a path, whether or not anything is there."""
    return text.startswith(("/", "./", "../", "~")) or text in (".", "..")
