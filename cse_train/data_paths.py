"""Where the inputs of runs and evaluations lie."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cse_train.user_files import UserFile, map_files


@dataclass(frozen=True, kw_only=True)
class DataPaths:
    """Where inputs lie on this machine; never part of a run's identity (their content hashes are)."""

    wiki: Path | None = None
    """Plain or gzipped text, one sentence a line; of a folder of data `wiki/wiki_sentences.txt.gz`, the cut that the
    shipped results were trained on, else SimCSE's file, which `cse data get wiki1m` fetches."""
    documents: Path | None = None
    """Gzipped JSON lines with a `text` field, for DeCLUTR."""
    nli: Path | None = None
    """CSV with the header sent0,sent1,hard_neg, or sent0,sent1,label."""
    pairs: Path | None = None
    """Folder of what `corpus: pairs:NAME` reads: NAME.csv with the header sent0,sent1, or hard_neg or label beside."""
    train_file: Path | None = None
    """What `corpus: file` reads: .txt or .txt.gz with one sentence a line, or .csv."""
    senteval: Path | None = None
    """SentEval's `downstream` folder."""
    vectors: Path | None = None
    """Folder of word vectors in text files, NAME.txt or NAME.vec."""
    cache: Path | None = None
    """Folder of the token cache; None for the user's cache folder."""
    files: tuple[UserFile, ...] = ()
    """The user's own corpora and sets, by the names that `train.corpus`, `train.dev` and suites give."""

    def corpus(self, name: str) -> UserFile | None:
        """The user's own training text of this name."""
        return map_files(self.files).get((True, name))

    def data_set(self, name: str) -> UserFile | None:
        """The user's own dev or test set of this name."""
        return map_files(self.files).get((False, name))

    def inputs(self) -> list[Path]:
        """Every file and folder that is given, the cache apart."""
        given = [path for name, path in vars(self).items() if name != "cache" and isinstance(path, Path)]
        return list(dict.fromkeys([*given, *(file.path for file in self.files if file.path is not None)]))

    @classmethod
    def from_folder(cls, folder: Path, **overrides: Path | None) -> "DataPaths":
        """The layout of `--data DIR`; whatever is absent stays None and is named when a run needs it."""
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
