"""Training corpora from data sets of the Hugging Face hub, or from local folders of one."""

import contextlib
import functools
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from huggingface_hub import constants

from cse_train.fields import ConfigError, nearest
from cse_train.text.corpora.files import PAIR_COLUMNS, Row, Source, join_hash, texts_hash

HUB_WAIT_SECONDS = 3.0
"""Seconds for which the hub's first answer is awaited."""


def hub_source(corpus: str) -> Source:
    """Opens the corpus `hf:NAME[:SPLIT[:COLUMN]]`, a hub data set or a local folder of one; its text is hashed."""
    name, split, column = (*corpus.removeprefix("hf:").split(":"), "", "")[:3]
    table = load_hub_split(name, split or "train", f"train.corpus={corpus}")
    names = _hub_columns(table, column, corpus)
    columns = ("text",) if len(names) == 1 else names

    def rows() -> Iterator[Row]:
        for row in table.select_columns(list(names)):
            fields = tuple(row[c] or " " for c in names)
            if len(fields) > 1 or fields[0].strip():
                yield fields

    return Source(corpus, columns, join_hash("hub", *columns, texts_hash(t for row in rows() for t in row)), rows)


def load_hub_split(name: str, split: str, setting: str) -> Any:
    """Loads one split of a hub data set. A failure is a one-line ConfigError that names `setting`, a `key=value`."""
    import datasets  # a second to import, and rarely needed

    if hub_is_away() and not Path(name).exists():  # else it asks again and again, and says so each time
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        return datasets.load_dataset(name, split=split)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:160]
        line = f"unreadable data set: {setting}, split {split} ({reason}); check the name, the split and HF_HUB_OFFLINE"
        raise ConfigError([line]) from error


_alone: ContextVar[bool] = ContextVar("_alone", default=False)


@contextlib.contextmanager
def hub_left_alone() -> Iterator[None]:
    """Inside this block no request goes to the hub: `hub_is_away` is True, and only the local cache counts."""
    token = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(token)


def hub_is_away() -> bool:
    """Returns whether only the hub's local cache can be used: offline mode, no answer, or within `hub_left_alone`."""
    return _alone.get() or _is_away()


@functools.cache
def _is_away() -> bool:
    """Asks the hub once per process, for at most HUB_WAIT_SECONDS seconds, and returns whether it gave no answer."""
    if constants.HF_HUB_OFFLINE:
        return True
    try:
        urlopen(Request(constants.ENDPOINT, method="HEAD"), timeout=HUB_WAIT_SECONDS).close()
    except HTTPError:
        return False
    except (OSError, ValueError):
        return True
    return False


def _hub_columns(table: Any, column: str, corpus: str) -> tuple[str, ...]:
    strings = [
        name for name, kind in table.features.items() if getattr(kind, "dtype", "") in ("string", "large_string")
    ]
    if column and column not in strings:
        raise ConfigError(
            [f"unknown column: train.corpus={corpus} has no text column {column}; {nearest(column, strings)}"]
        )
    if column:
        return (column,)
    if set(PAIR_COLUMNS[:2]) <= set(strings):
        return tuple(c for c in PAIR_COLUMNS if c in strings)
    if not strings:
        raise ConfigError([f"no text: train.corpus={corpus} has no text column; choose another data set"])
    return ("text",) if "text" in strings else (strings[0],)
