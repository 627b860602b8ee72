"""Embeds a file of sentences into a file of vectors, a chunk at a time, so that memory does not grow with the file."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from cse_train.evaluate.vectors import TextModel
from cse_train.fields import ConfigError
from cse_train.files import replace_file
from cse_train.text.files import chunks
from cse_train.text.tables import read_sentences

VECTOR_FORMATS = (".npy", ".parquet")
LINES_AT_ONCE = 8192
"""Most sentences encoded at once, fewer where they are long."""
Report = Callable[[int], object]
"""Progress callback, called with the number of sentences that are done."""
Embedded = Iterator[tuple[list[str], np.ndarray]]
"""Chunks of sentences with their embeddings, float32 [n, D]."""


def count_sentences(source: Path, to: Path, column: str | None = None) -> int:
    """Returns the number of sentences in a file. Raises ConfigError for none, for a file that cannot be read to its
    end, and for an output of an unknown kind, so that mistakes are found before a model is opened."""
    if to.suffix not in VECTOR_FORMATS:
        raise ConfigError([f"unknown format: to={to}; end the name in {' or '.join(VECTOR_FORMATS)}"])
    count = sum(1 for _ in read_sentences(source, column))
    if count == 0:
        raise ConfigError([f"empty data: file={source} has no sentence; give another file"])
    return count


def embed_file(model: TextModel, source: Path, to: Path, count: int, column: str | None, report: Report) -> None:
    """Embeds the `count` sentences of a file into `to`, in their order; `to` appears when it is complete.

    .npy: float32 [count, D]. .parquet: columns `text` and `embedding`. Raises NotFinite, OSError for a full disk, and
    ConfigError where the file has changed since it was counted.
    """
    write = _write_npy if to.suffix == ".npy" else _write_parquet
    replace_file(to, lambda aside: write(aside, count, _embed_chunks(model, source, count, column, report)))


def _embed_chunks(model: TextModel, source: Path, count: int, column: str | None, report: Report) -> Embedded:
    done = 0
    for chunk in chunks(read_sentences(source, column), LINES_AT_ONCE):
        done += len(chunk)
        _require_unchanged(source, count, done, done <= count)
        yield chunk, model.embed(chunk)
        report(done)
    _require_unchanged(source, count, done, done == count)


def _require_unchanged(source: Path, count: int, done: int, fits: bool) -> None:
    if not fits:
        raise ConfigError([f"changed data: file={source} had {count} sentences and has {done} now; start again"])


def _write_npy(aside: Path, count: int, embedded: Embedded) -> None:
    """Writes embeddings to an .npy, mapped anew for every chunk: pages that stay mapped would count as memory."""
    first = 0
    for chunk, embeddings_ND in embedded:
        if first == 0:
            np.lib.format.open_memmap(aside, "w+", np.float32, (count, embeddings_ND.shape[1]))
            if hasattr(os, "posix_fallocate"):  # a full disk is an error here, but kills when mapped pages are written
                with aside.open("rb+") as file:
                    os.posix_fallocate(file.fileno(), 0, aside.stat().st_size)
        np.lib.format.open_memmap(aside, "r+")[first : first + len(chunk)] = embeddings_ND
        first += len(chunk)


def _write_parquet(aside: Path, _count: int, embedded: Embedded) -> None:
    import pyarrow as pa  # type: ignore[import-untyped]  # comes with datasets; half a second to import
    from pyarrow import parquet

    writer = None
    try:
        for chunk, embeddings_ND in embedded:
            flat = pa.array(embeddings_ND.ravel())
            vectors = pa.FixedSizeListArray.from_arrays(flat, embeddings_ND.shape[1])
            table = pa.table({"text": pa.array(chunk, pa.string()), "embedding": vectors})
            writer = writer or parquet.ParquetWriter(aside, table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()
