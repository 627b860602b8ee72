"""Methods and suites of a user's own, in files outside of the repository; every test ends without them."""

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cse_train.plugins import registry

METHOD = """
from dataclasses import dataclass

VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Config:
    scale: float = 2.0


def make_collate(config, tokenizer, max_seq_length):
    return None


def build(config, backbone, training=True):
    return None
"""


@pytest.fixture(autouse=True)
def no_plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("CSE_PLUGINS", raising=False)
    yield
    registry.forget()


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes a file of the user's, by default a whole method; gives its path."""

    def written(name: str, text: str = METHOD) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf8")
        return path

    return written
