"""Paths of the data that runs and evaluations read on this machine (`DataPaths`)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cse_train.user_files import UserFile, map_files


@dataclass(frozen=True, kw_only=True)
class DataPaths:
    """Paths of input data on this machine; never part of a run's identity, unlike the hashes of the data's content."""

    wiki: Path | None = None
    """File of Wikipedia sentences, plain or gzipped, one sentence a line.

    In a folder of data it is `wiki/wiki_sentences.txt.gz`, the cut that the shipped results were trained on, else
    SimCSE's file, which `cse data get wiki1m` fetches.
    """
    documents: Path | None = None
    """File of documents for DeCLUTR: gzipped JSON lines with a `text` field."""
    nli: Path | None = None
    """CSV file of NLI triplets or labelled pairs, with the header sent0,sent1,hard_neg or sent0,sent1,label."""
    pairs: Path | None = None
    """Folder that `corpus: pairs:NAME` reads: files NAME.csv with the header sent0,sent1 and optionally a third column.

    The third column is hard_neg or label.
    """
    train_file: Path | None = None
    """File that `corpus: file` reads: .txt or .txt.gz with one sentence a line, or .csv."""
    senteval: Path | None = None
    """Path of SentEval's `downstream` folder."""
    vectors: Path | None = None
    """Folder of word vectors in text files, NAME.txt or NAME.vec."""
    cache: Path | None = None
    """Folder of the token cache; None for the user's cache folder."""
    files: tuple[UserFile, ...] = ()
    """Corpora and sets of the user's own, by the names that `train.corpus`, `train.dev` and suites use."""

    def corpus(self, name: str) -> UserFile | None:
        """Returns the user's own training text of this name, or None."""
        return map_files(self.files).get((True, name))

    def data_set(self, name: str) -> UserFile | None:
        """Returns the user's own dev or test set of this name, or None."""
        return map_files(self.files).get((False, name))

    def inputs(self) -> list[Path]:
        """Returns every data file and folder that is set, without the cache and without duplicates."""
        paths = [path for name, path in vars(self).items() if name != "cache" and isinstance(path, Path)]
        return list(dict.fromkeys([*paths, *(file.path for file in self.files if file.path is not None)]))

    @classmethod
    def from_folder(cls, folder: Path, **overrides: Path | None) -> "DataPaths":
        """Builds the paths from the layout of `--data DIR`; `overrides` that are not None win.

        Whatever is absent stays None, and is named when a run needs it.
        """
        nli = sorted((folder / "nli").glob("*.csv"))
        wiki = folder / "wiki" / "wiki_sentences.txt.gz"
        places = {
            "wiki": wiki if wiki.exists() else wiki.with_name("wiki1m_for_simcse.txt"),
            "documents": folder / "wiki" / "wiki_docs_2048.jsonl.gz",
            "nli": nli[0] if nli else folder / "nli" / "none.csv",
            "pairs": folder / "pairs",
            "vectors": folder / "vectors",
            "senteval": folder / "senteval" / "downstream",
        }
        paths: dict[str, Any] = {k: p.resolve() for k, p in places.items() if p.exists()}
        return cls(**(paths | {k: v for k, v in overrides.items() if v is not None}))
