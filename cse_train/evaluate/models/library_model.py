"""Models in sentence-transformers or model2vec folders, run by their own library, so that numbers equal its numbers."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from cse_train import distributed
from cse_train.backbone.folders import MIXES_PADDING, files_hash
from cse_train.backbone.prompts import read_prompts
from cse_train.backbone.refusals import require_bases
from cse_train.backbone.weight_files import require_safe
from cse_train.evaluate.embedding import require_finite
from cse_train.evaluate.models.text_model import MAX_LENGTH, TextModel, require_texts
from cse_train.fields import ConfigError
from cse_train.text.files import file_hash

INSTALL_COMMAND = "pip install 'cse-search[sentence-transformers]'"
"""Command that installs sentence-transformers, for messages."""
EMBEDDED_ROWS = 128
LIBRARY_POOLERS = {"mean": "mean", "cls": "cls_no_mlp", "lasttoken": "last"}
"""Pooling mode of sentence-transformers -> name of the equal pooler here."""
PROMPT_MODULES = (
    "8c7723ec86acc9635227c7efc3e2dd0924c58f0689c3d6207b424c6518fae2fb",
    "127f064032e49c1708e629d38b40b525643cd3be1ebfd1d9d706bf49f8e0e6b0",
    "0b49bd850d6ed48773426c23412e980139b0d77a927a0ac3691b485064188664",
)
"""SHA-256 of `modules/prompted_transformer.py`, today's first; the others are in folders that were exported earlier."""


@dataclass(frozen=True)
class LibraryModel(TextModel):
    """A `TextModel` over a `SentenceTransformer` in fp32 and eval mode."""

    model: Any

    def embed(self, texts: Sequence[str], prompt: str | None = None) -> np.ndarray:
        """Embeds texts as `TextModel.embed`; the library sorts by length itself. Every rank embeds everything.

        Models whose results depend on padding get texts one by one: else the score would depend on the batches.
        """
        require_texts(texts)
        distinct = list(dict.fromkeys(texts))
        row_of = {text: row for row, text in enumerate(distinct)}
        with torch.inference_mode():
            embeddings = self.model.encode(
                distinct,
                prompt=self.prompt if prompt is None else prompt,
                batch_size=1 if _mixes_padding(self.model) else EMBEDDED_ROWS,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
        embeddings_UD = np.asarray(embeddings, dtype=np.float32)
        require_finite(embeddings_UD, self.name, "its weights are damaged, fetch or save the model again")
        return embeddings_UD[[row_of[text] for text in texts]]


def _mixes_padding(model: Any) -> bool:
    configs = (getattr(module, "config", None) for module in model.modules())
    return any(getattr(config, "model_type", "") in MIXES_PADDING for config in configs)


def open_library_model(folder: Path, pooler: str | None, max_length: int | None, prompt: str | None) -> LibraryModel:
    """Opens a model folder of the library. ConfigError where the library is missing or fails, or a pooler is given."""
    if pooler is not None:
        line = f"two poolers: pooler={pooler}, but model={folder} is a sentence-transformers folder"
        raise ConfigError([f"{line} with a pooling of its own; leave the pooler out"])
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise ConfigError([f"not installed: model={folder} needs sentence-transformers; {INSTALL_COMMAND}"]) from error
    require_safe(folder)
    require_bases(folder)
    try:
        # Code in a folder runs only where it is, byte for byte, the one module that `export` writes.
        device, trusted = str(distributed.device()), holds_our_module(folder)
        with _with_modules(folder) as place:
            model = SentenceTransformer(str(place), device=device, trust_remote_code=trusted).float().eval()
    except Exception as error:  # whatever the folder's own modules raise
        first = str(error).strip().partition("\n")[0][:120] or type(error).__name__
        raise ConfigError([f"not a model: model={folder}: {first}; sentence-transformers cannot load it"]) from error
    limit = _limit(model, max_length)
    prompts = read_prompts(folder)
    text = prompts.text(prompt, "prompt", str(folder))
    patterns = ("*.json", "*.safetensors", "pytorch_model*.bin")
    weights = files_hash(file for pattern in patterns for file in sorted(folder.rglob(pattern)))
    facts = (str(folder), _pooler_of(model), limit, weights)
    return LibraryModel(*facts, model, prompts=prompts.texts, prompt=text)


@contextmanager
def _with_modules(folder: Path) -> Iterator[Path]:
    """Yields a model folder with modules.json; for an old model2vec folder without it, a temporary one of links."""
    if (folder / "modules.json").is_file():
        yield folder
        return
    normalise = json.loads((folder / "config.json").read_text(encoding="utf8")).get("normalize")
    kinds = ["StaticEmbedding", *(["Normalize"] if normalise else [])]
    modules = [
        {"idx": at, "name": str(at), "path": f"{at or ''}", "type": f"sentence_transformers.models.{kind}"}
        for at, kind in enumerate(kinds)
    ]
    with TemporaryDirectory() as temporary:
        place = Path(temporary)
        for file in folder.iterdir():
            (place / file.name).symlink_to(file.resolve())
        (place / "modules.json").write_text(json.dumps(modules), encoding="utf8")
        yield place


def _limit(model: Any, max_length: int | None) -> int:
    """Sets and returns the tokens kept of a text; static vectors without a limit of their own get MAX_LENGTH."""
    if type(model[0]).__name__ != "StaticEmbedding":
        if max_length is not None:
            model.max_seq_length = max_length
        return int(model.max_seq_length or MAX_LENGTH)
    tokenizer = model[0].tokenizer
    limit = max_length or (tokenizer.truncation or {}).get("max_length", MAX_LENGTH)
    tokenizer.enable_truncation(limit)
    return int(limit)


def holds_our_module(folder: Path) -> bool:
    """Returns whether a folder's only code is the prompt module that `export` writes, or wrote once, byte for byte."""
    files = list(folder.rglob("*.py"))
    return len(files) == 1 and file_hash(files[0]) in PROMPT_MODULES


def _pooler_of(model: Any) -> str:
    """Returns this project's name of the pooling where there is one, else the names of the library's modules."""
    kinds = [type(module).__name__ for module in model if type(module).__name__ != "Normalize"]
    pooling = [module for module in model if type(module).__name__ == "Pooling"]
    mode = ""
    if len(pooling) == 1:  # an attribute since version 6, a method before
        only = pooling[0]
        mode = str(only.pooling_mode if hasattr(only, "pooling_mode") else only.get_pooling_mode_str())
    if kinds == ["Transformer", "Pooling"]:
        return LIBRARY_POOLERS.get(mode, mode)
    if kinds == ["Transformer", "Pooling", "Dense"] and mode == "cls":
        return "cls"
    return "sentence-transformers: " + " + ".join(kinds)
