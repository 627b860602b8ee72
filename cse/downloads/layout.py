"""Lays out published files as `--data` reads them; each function writes only below `to`."""

import csv
import io
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from cse_train.fields import ConfigError
from cse_train.reading import reading

Make = Callable[[Sequence[Path], Path], None]
SPLITS = ("train", "dev", "test")


class NliPair(NamedTuple):
    """A row of SNLI's or MultiNLI's tab-separated files."""

    premise: str
    hypothesis: str
    label: str
    """entailment, neutral, contradiction, or - if the annotators did not agree."""


def copy(files: Sequence[Path], to: Path, folder: str) -> None:
    """Copies every file unchanged into `folder`."""
    (to / folder).mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copyfile(file, to / folder / file.name)


def unpack(files: Sequence[Path], to: Path, folder: str, only: Sequence[str] = ()) -> None:
    """Unpacks archives into `folder`: all of their files, or only the top-level folders and files named in `only`.

    Raises ConfigError for a damaged archive, and for one without any of the named files.
    """
    for archive in files:
        with reading("damaged archive", f"file={archive.name}", "give the same command again"):
            _extract(archive, to / folder, only)
        for path in list((to / folder).iterdir()) if only else ():
            if path.name not in only:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        if not any((to / folder).rglob("*")):
            raise ConfigError([f"empty archive: file={archive.name} has nothing of {', '.join(only) or 'all'}"])


def split_snli(files: Sequence[Path], to: Path) -> None:
    """Writes `s1`, `s2` and `labels` of each split of SNLI, as SentEval lays them out."""
    folder = to / "senteval" / "downstream" / "SNLI"
    folder.mkdir(parents=True)
    for split in SPLITS:
        columns = zip(*_nli_rows(files[0], f"_{split}.txt"), strict=True)
        for name, column in zip(("s1", "s2", "labels"), columns, strict=True):
            (folder / f"{name}.{split}").write_text("".join(f"{text}\n" for text in column), encoding="utf8")


def write_labelled_pairs(files: Sequence[Path], to: Path) -> None:
    """Writes the training splits of several archives to `pairs/nli_labels.csv`, with columns sent0, sent1 and label."""
    (to / "pairs").mkdir(parents=True)
    with (to / "pairs" / "nli_labels.csv").open("w", encoding="utf8", newline="") as opened:
        write = csv.writer(opened)
        write.writerow(("sent0", "sent1", "label"))
        for archive in files:
            write.writerows(row for row in _nli_rows(archive, "_train.txt") if row.label != "-")


def _extract(archive: Path, to: Path, only: Sequence[str]) -> None:
    """Unpacks an archive; a single folder around all files is left out, unless `only` names it."""
    to.mkdir(parents=True, exist_ok=True)
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(to)  # it drops drives, roots and `..` of names
    else:
        with tarfile.open(archive) as opened_tar:
            opened_tar.extractall(to, filter="data")
    entries = list(to.iterdir())
    if len(entries) == 1 and entries[0].is_dir() and entries[0].name not in only:
        wrapper = entries[0].rename(to / ".around")  # it may hold one of its own name
        for path in wrapper.iterdir():
            path.rename(to / path.name)
        wrapper.rmdir()


def _nli_rows(archive: Path, ending: str) -> Iterator[NliPair]:
    """Yields the rows of the archive's file whose name ends in `ending`; whitespace within a text becomes single
    blanks."""
    damaged = reading("damaged archive", f"file={archive.name}", "give the same command again")
    with damaged, zipfile.ZipFile(archive) as opened:
        names = [name for name in opened.namelist() if name.endswith(ending) and "__MACOSX" not in name]
        if not names:
            raise ConfigError([f"empty archive: file={archive.name} has no file *{ending}"])
        with opened.open(names[0]) as binary:
            lines = io.TextIOWrapper(binary, encoding="utf8", newline="\n")
            head = next(lines).rstrip("\n").split("\t")
            places = [head.index(name) for name in ("sentence1", "sentence2", "gold_label")]
            for line in lines:
                fields = line.rstrip("\n").split("\t")
                yield NliPair(*(" ".join(fields[place].split()) for place in places))
