"""The SNLI corpus with its labels, in the files of SentEval."""

from collections.abc import Iterator
from pathlib import Path

from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError
from cse_train.text.corpora.files import LABELLED_COLUMNS, Row, Source, file_hash, join_hash, read_label
from cse_train.text.corpora.lines import open_text

SNLI_FILES = ("s1", "s2", "labels")
"""Names, without the split, of SNLI's files of premises, hypotheses and labels."""


def snli_source(paths: DataPaths) -> Source:
    """Opens the training split of SNLI in SentEval's layout: a file each for premises, hypotheses and labels.

    A folder without the training split gives dev and test instead: no suite here evaluates on SNLI, although DeCLUTR's
    published averages include it.
    """
    folder = None if paths.senteval is None else paths.senteval / "SNLI"
    full = {s for s in ("train", "dev", "test") if folder and all((folder / f"{f}.{s}").is_file() for f in SNLI_FILES)}
    splits = [split for split in ("train", "dev", "test") if split in (full & {"train"} or full)]
    if folder is None or not splits:
        names = ", ".join(f"{file}.train" for file in SNLI_FILES)
        lacks = f"missing data: train.corpus=snli needs SNLI/{names} of SentEval"
        raise ConfigError([f"{lacks}; give --senteval DIR, or cse data get snli"])
    files = [[folder / f"{file}.{split}" for file in SNLI_FILES] for split in splits]
    digest = join_hash("snli", *(file_hash(path) for split in files for path in split))
    return Source("snli", LABELLED_COLUMNS, digest, lambda: (row for split in files for row in _snli_rows(split)))


def _snli_rows(files: list[Path]) -> Iterator[Row]:
    """Yields (premise, hypothesis, label) from three parallel files; pairs without a label are left out."""
    columns = []
    for path in files:
        with open_text(path) as lines:
            columns.append([line.strip() for line in lines])
    if len({len(column) for column in columns}) > 1:
        counts = ", ".join(f"{path.name} {len(column)}" for path, column in zip(files, columns, strict=True))
        raise ConfigError([f"lines do not match: {files[0].parent} has {counts}; fetch it again"])
    for number, row in enumerate(zip(*columns, strict=True), 1):
        if label := read_label(row[2], files[2], number):
            yield (*row[:2], label)
