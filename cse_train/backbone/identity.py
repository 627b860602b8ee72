"""Identifies an encoder without building its model: content hash and tokenizer."""

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer

from cse_train.backbone.config_file import REMEDY, read_config, require_fitting
from cse_train.backbone.folders import TOKENIZER_FILES, content_hash, find_weights, locate, tokenizer_folder
from cse_train.backbone.prompts import read_prompts
from cse_train.backbone.weight_files import require_numbers
from cse_train.backbone.words import vectors_identity
from cse_train.fields import ConfigError
from cse_train.reading import reading, require_size
from cse_train.text.files import Stamp, stamp
from cse_train.text.tokens import state_hash, tokenizer_hash
from cse_train.text.vector_files import names_vectors

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TOKENIZER_BYTES = 200_000_000
"""Largest size of a tokenizer's file, in bytes."""


def backbone_identity(name: str) -> tuple[str, str]:
    """Returns (content hash, tokenizer hash) of an encoder; ConfigError for one that `load_backbone` would refuse."""
    if names_vectors(name):
        return vectors_identity(name)
    folder = locate(name)
    try:
        tokenizer_place = tokenizer_folder(folder)
    except ConfigError:
        read_config(folder)  # a model of images has none either, and that is what to say of it
        raise
    if tokenizer_place.parent == find_weights():  # transformers takes our files as they are, and imports torch to do so
        return content_hash(folder), state_hash(Tokenizer.from_file(str(tokenizer_place / "tokenizer.json")).to_str())
    files = [file for file in sorted({*folder.iterdir(), *tokenizer_place.iterdir()}) if file.is_file()]
    hashes = content_hash(folder), _tokenizer_hash(folder, tuple((str(file), stamp(file)) for file in files))
    require_numbers(folder, f"train.encoder={name}")
    return hashes


def has_masked_lm_head(name: str) -> bool:
    """Returns True if an encoder's config.json names an architecture that fills masked tokens."""
    if names_vectors(name):
        return False
    with reading("unreadable config", name, REMEDY):
        config = json.loads((locate(name) / "config.json").read_text(encoding="utf8"))
        return any("MaskedLM" in kind or "PreTraining" in kind for kind in config.get("architectures") or ())


def prompt_identity(name: str, prompt: str | None) -> str:
    """Returns the text of the prompt that `load_backbone(name, prompt=prompt)` puts in use, empty for none.

    The text ends in a mark if the prompt's tokens are excluded from means.
    """
    if names_vectors(name):
        return ""
    prompts = read_prompts(Path(name) if os.path.isabs(name) else locate(name))  # a plan asks thousands of times
    text = prompts.text(prompt, "train.prompt", f"train.encoder={name}")
    return text if prompts.averaged or not text else f"{text}\n(in no mean)"


@lru_cache(maxsize=64)
def _tokenizer_hash(folder: Path, _files: tuple[tuple[str, Stamp], ...]) -> str:
    """Returns the hash of a folder's tokenizer, cached as long as its files stay unchanged.

    Raises ConfigError also for a folder whose configuration is not that of an encoder.
    """
    config, tokenizer = read_config(folder), load_tokenizer(folder)
    require_fitting(str(folder), len(tokenizer), config)
    return tokenizer_hash(tokenizer)


def load_tokenizer(folder: Path) -> "PreTrainedTokenizerBase":
    """Loads the tokenizer of an encoder's folder; one without padding gets a padding token, in memory alone."""
    from transformers import AutoTokenizer

    place = tokenizer_folder(folder)
    for file in TOKENIZER_FILES:
        require_size(place / file, TOKENIZER_BYTES, REMEDY)
    remedy = REMEDY if (place / TOKENIZER_FILES[0]).is_file() else "put its tokenizer.json into the folder"
    with reading("unreadable tokenizer", place, remedy):
        tokenizer = AutoTokenizer.from_pretrained(place)
        pieces = len(tokenizer)
    if pieces <= len(set(tokenizer.all_special_ids)):  # what transformers makes of a tokenizer_config.json alone
        raise ConfigError(
            [f"missing tokenizer: {place} has special tokens alone; put its tokenizer.json into the folder"]
        )
    if tokenizer.pad_token_id is None and (token := padding_of(tokenizer)):
        tokenizer.pad_token = token
    return tokenizer


def padding_of(tokenizer: "PreTrainedTokenizerBase") -> str | None:
    """Returns the special token that serves as padding where a tokenizer has none; None if there is no such token.

    No text sees it: it fills batches, behind the attention mask. The end-of-text token, the first choice, is what
    libraries take for GPT-2 and Llama.
    """
    tokens = (tokenizer.eos_token, tokenizer.sep_token, tokenizer.unk_token, tokenizer.bos_token)
    return next((token for token in tokens if token), None)
