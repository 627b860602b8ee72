"""What an encoder is, told without loading its weights and without torch: content hash and tokenizer."""

from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer

from cse_train.backbone.folders import content_hash, locate, shipped_folder, tokenizer_folder
from cse_train.text.tokens import state_hash, tokenizer_hash

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def backbone_identity(name: str) -> tuple[str, str]:
    """(content hash, tokenizer hash) of what `load_backbone(name)` would load, without loading the weights."""
    folder = locate(name)
    place = tokenizer_folder(folder)
    if place == shipped_folder() / "tokenizer":  # transformers takes our file as it is, and imports torch to do so
        return content_hash(folder), state_hash(Tokenizer.from_file(str(place / "tokenizer.json")).to_str())
    return content_hash(folder), tokenizer_hash(load_tokenizer(folder))


def load_tokenizer(folder: Path) -> "PreTrainedTokenizerBase":
    """The tokenizer of an encoder's folder."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tokenizer_folder(folder))
