"""Methods and suites of a user's own, in files outside of the repository; every test ends without them."""

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cse_train.plugins import registry

METHOD = """
from dataclasses import dataclass

from cse_train.api import Options


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    VERSION = 1
    scale: float = 2.0


from cse_train.api import Method


class MarginLoss(Method):
    @classmethod
    def make_collate(cls, config, tokenizer, max_seq_length):
        return None

    @classmethod
    def build(cls, config, backbone, training=True):
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
