"""The shipped tokenizer, and sources made on the spot."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerBase

import cse_train
from cse_train.text.file_corpora import Source


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(Path(cse_train.__file__).parent / "weights" / "tokenizer")


@pytest.fixture
def source_of() -> Callable[[Sequence[str]], Source]:
    """A one-column source that holds the given texts."""
    return lambda texts: Source("made", ("text",), f"hash of {texts}", lambda: ((text,) for text in texts))
