"""Opens any sentence encoder as a TextModel: a run, a transformers or sentence-transformers folder, word vectors.

Shape suffixes: N texts, D embedding size.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from cse_train import distributed
from cse_train.backbone.backbone import Backbone, load_backbone
from cse_train.backbone.config_file import require_fitting
from cse_train.backbone.folders import files_hash, list_encoders, locate, weight_files
from cse_train.backbone.prompts import Prompts, prompt_tokens, read_prompts
from cse_train.backbone.reading_order import first_token_problem, others_than_first, reads_first
from cse_train.backbone.refusals import find_static_vectors, require_encoder
from cse_train.backbone.weight_files import read_tensors
from cse_train.checkpoint import BEST, LoadedRun, load_model
from cse_train.evaluate.embedding import Embedder, Encode, NotFinite, require_finite
from cse_train.evaluate.models.library_model import open_library_model
from cse_train.evaluate.models.text_model import MAX_LENGTH, TextModel, require_texts
from cse_train.evaluate.models.word_vectors import open_word_vectors
from cse_train.fields import ConfigError, nearest
from cse_train.files import holds_program_model, lacks_program_model
from cse_train.modules.frozen_encoder import FrozenEncoder
from cse_train.modules.pooling import POOLERS, SentencePooler, has_projector
from cse_train.modules.prompts import PromptedEncoder
from cse_train.numerics import fast_fp32
from cse_train.text.vector_files import names_vectors

log = logging.getLogger(__name__)

__all__ = ["NotFinite", "PackedModel", "TextModel", "open_model"]
MODEL_ADVICE = "give a run's folder, one of transformers or sentence-transformers, a shipped encoder, or word vectors"
"""End of the message for a path that is no model."""


@dataclass(frozen=True)
class PackedModel(TextModel):
    """A model of this project, or a plain encoder with a pooler: `encode` takes packed batches."""

    tokenizer: Any
    encode: Encode
    token_limit: int
    """Tokens really kept of a text: `max_length`, or the number of positions where that is smaller."""
    device: torch.device
    skips: Any = None
    """Encoder whose mean pooling leaves out the prompt's tokens; None where they are averaged too."""
    text_of: Callable[[str], str] = str
    """Function that maps each text to what the model reads in its place."""

    def embed(self, texts: Sequence[str], prompt: str | None = None) -> np.ndarray:
        """Embeds texts as `TextModel.embed`; every rank of a process group calls it with equal texts."""
        require_texts(texts)
        front = self.prompt if prompt is None else prompt
        embedder = Embedder([self.text_of(text) for text in texts], self.tokenizer, self.token_limit, front)
        if self.skips is not None:
            self.skips.skipped = prompt_tokens(self.tokenizer, front)
        with fast_fp32():
            embeddings_UD = embedder(self.encode, self.device)
        require_finite(embeddings_UD, self.name)
        embeddings_ND: np.ndarray = embeddings_UD.astype(np.float32)[embedder.rows_N]
        return embeddings_ND


def open_model(
    path_or_run_folder: Path,
    *,
    pooler: str | None = None,
    max_length: int | None = None,
    signature: str | None = None,
    prompt: str | None = None,
    encoder: str | None = None,
) -> TextModel:
    """Opens a model on this rank's device, in eval mode and fp32, from any of these: a run's folder (or its best/), a
    transformers folder or shipped encoder, a sentence-transformers or model2vec folder, or a file of word vectors.

    All but a plain encoder bring their pooler; `pooler` replaces that of a run, and is required for a plain encoder;
    `prompt` names another of the encoder's prompts than the one that it was trained with, or than the default;
    `encoder` is where a run's encoder is now. Raises ConfigError for a folder that is no model, a pooler that would
    read weights nobody trained, and a `max_length` beyond the positions; CorruptCheckpoint, also for a run of another
    `signature`.
    """
    path = Path(path_or_run_folder)
    if pooler is not None and pooler not in POOLERS:
        raise ConfigError([f"unknown pooler: pooler={pooler}; {nearest(pooler, POOLERS)}"])
    if (of_program := find_program_model(path)) is not None:
        path, encoder = of_program, None
    if line := lacks_program_model(path):
        raise ConfigError([line])
    if encoder is not None and not is_run(path):
        raise ConfigError([f"no run: encoder={encoder} of model={path}; leave it out, or give a run's folder"])
    if path.is_file():
        if pooler is not None:
            raise ConfigError([f"no pooler: pooler={pooler} of the word vectors {path}; leave the pooler out"])
        return open_word_vectors(path, max_length)
    if is_run(path):
        return _open_run(path, pooler, max_length, prompt, load_model(path, signature, encoder))
    if (path / "modules.json").is_file() or find_static_vectors(path):
        return open_library_model(path, pooler, max_length, prompt)
    if str(path) in list_encoders() or ((path / "config.json").is_file() and weight_files(path)):
        return _open_encoder(path, pooler, max_length, prompt)
    require_encoder(path)
    absent = "has no run's checkpoint, no modules.json, and no config.json with weights"
    reason = absent if path.is_dir() else f"is no folder; {nearest(str(path), list_encoders())}"
    raise ConfigError([f"not a model: model={path} {reason}; {MODEL_ADVICE}"])


def find_program_model(path: Path) -> Path | None:
    """Returns the folder of the best model in a training program's run; None for any other folder."""
    return next((folder for folder in (path, path / BEST.parent) if holds_program_model(folder)), None)


def is_run(path: Path) -> bool:
    """Returns whether a folder is a run of the built-in training loop, or the best/ of one."""
    return find_program_model(path) is None and ((path / BEST).is_file() or _has_run_header(path / BEST.name))


def _has_run_header(file: Path) -> bool:
    if not file.is_file():
        return False
    try:
        with safe_open(file, "pt") as opened:
            return "run" in (opened.metadata() or {})
    except (SafetensorError, OSError):
        return file.parent.name == BEST.parent.name


def _open_run(
    folder: Path,
    pooler: str | None,
    max_length: int | None,
    prompt: str | None,
    loaded: LoadedRun,
) -> PackedModel:
    run, model, tokenizer = loaded
    parts = model.embedding_parts()
    sentence_pooler, embedder = parts.pooler, parts.prompted or parts.encoder
    assert embedder is not None, run.method
    name = f"that of {run.method}"
    if isinstance(sentence_pooler, SentencePooler):
        if pooler is not None and isinstance(model, FrozenEncoder) and pooler != sentence_pooler.pooler:
            line = f"another pooler: pooler={pooler} of {folder}, whose {run.method} was fitted to"
            raise ConfigError([f"{line} {sentence_pooler.pooler}; leave the pooler out"])
        if pooler is not None:
            if has_projector(pooler, training=False) and sentence_pooler.projector is None:
                line = f"untrained pooler: pooler={pooler} of {folder}, which was trained with {sentence_pooler.pooler}"
                raise ConfigError([f"{line} and has no MLP; choose another"])
            sentence_pooler.pooler = pooler
        name = sentence_pooler.pooler
        require_first_token(name, _bare(embedder), tokenizer, str(folder))
    elif pooler is not None:
        line = f"fixed pooler: pooler={pooler} of {folder}, which was trained with {name}"
        raise ConfigError([f"{line}; leave the pooler out"])
    file = folder / BEST if (folder / BEST).is_file() else folder / BEST.name
    facts = (str(folder), name, max_length or run.train.dev_max_length, files_hash([file]))
    opened = _make_model(facts, model, embedder, model.encode, tokenizer, strict=max_length is not None)
    opened = replace(opened, text_of=model.text_of)
    if names_vectors(run.train.encoder):
        return opened
    prompts = read_prompts(locate(run.train.encoder))
    return _add_prompt(opened, prompts, run.train.prompt if prompt is None else prompt, _bare(embedder))


def _open_encoder(path: Path, pooler: str | None, max_length: int | None, prompt: str | None) -> PackedModel:
    if pooler is None:
        line = f"which pooler: model={path} is a plain encoder"
        raise ConfigError([f"{line}; choose one of {', '.join(POOLERS)}"])
    backbone = load_backbone(str(path))
    require_fitting(str(path), len(backbone.tokenizer), backbone.config)
    require_first_token(pooler, backbone.encoder, backbone.tokenizer, str(path))
    model = _Pooled(backbone, pooler)
    if has_projector(pooler, training=False):
        _load_trained_mlp(model.pooler, path)
    facts = (str(path), pooler, max_length or MAX_LENGTH, backbone.content_hash)
    opened = _make_model(facts, model.eval(), model.encoder, model, backbone.tokenizer, strict=max_length is not None)
    return _add_prompt(opened, backbone.prompts, prompt, backbone.encoder)


def _add_prompt(opened: PackedModel, prompts: Prompts, name: str | None, encoder: nn.Module) -> PackedModel:
    """Returns the model with a prompt of its encoder's folder before each text; `name` None is the default prompt."""
    text = prompts.text(name, "prompt", opened.name)
    if name is None and (line := prompts.unused(text, "prompt", opened.name)):
        log.warning(line)
    skips = None if prompts.averaged else encoder
    return replace(opened, prompts=prompts.texts, prompt=text, skips=skips)


class _Pooled(nn.Module):
    """A plain encoder and its pooler as one module."""

    def __init__(self, backbone: Backbone, pooler: str) -> None:
        super().__init__()
        self.encoder = backbone.encoder
        self.pooler = SentencePooler(pooler, backbone.width)

    def forward(self, packed: Any) -> Any:
        return self.pooler(self.encoder(packed, tokens=self.pooler.needs_tokens))[0]


def _load_trained_mlp(pooler: SentencePooler, path: Path) -> None:
    """Loads the folder's own pooler as the MLP; ConfigError where there is none, or one that was never trained.

    transformers fills an absent pooler with random numbers and a bias of zeros, and saves it like any other (users of
    SimCSE lost points to it); training moves the bias.
    """
    tensors = {} if str(path) in list_encoders() else read_tensors(path)
    mlp = {name.rpartition("pooler.")[2]: t for name, t in tensors.items() if "pooler.dense." in name}
    missing = {"dense.weight", "dense.bias"} - mlp.keys()
    if missing or not mlp["dense.bias"].any():
        reason = "no pooler in the weights" if missing else "a randomly initialised one, its bias is all zeros"
        poolers = ", ".join(name for name in POOLERS if not has_projector(name, training=False))
        raise ConfigError([f"untrained pooler: pooler=cls of {path}: {reason}; choose one of {poolers}"])
    assert pooler.projector is not None
    pooler.projector.load_state_dict(mlp)


def _make_model(
    facts: tuple[str, str, int, str],
    model: nn.Module,
    embedder: nn.Module,
    encode: Encode,
    tokenizer: Any,
    *,
    strict: bool,
) -> PackedModel:
    name, pooler, max_length, weights = facts
    room = _positions(embedder)
    if strict and not 1 <= max_length <= (room or max_length):
        raise ConfigError([f"wrong length: max_length={max_length} of {name}; give 1 to {room or 'any'}"])
    limit, device = min(max_length, room or max_length), distributed.device()
    model.to(device)
    return PackedModel(name, pooler, max_length, weights, tokenizer, encode, limit, device)


def require_first_token(pooler: str, encoder: nn.Module, tokenizer: Any, name: str) -> None:
    """Raises ConfigError where a pooler reads position 0, and that position's vector does not depend on the text."""
    if reads_first(pooler) and (why := first_token_problem(encoder, tokenizer)):
        raise ConfigError([f"no first token: pooler={pooler} of {name}, {why}; choose {others_than_first(POOLERS)}"])


def _bare(embedder: nn.Module) -> nn.Module:
    """Returns an encoder without the trained prompts around it."""
    return embedder.encoder if isinstance(embedder, PromptedEncoder) else embedder


def _positions(embedder: nn.Module) -> int | None:
    """Returns the tokens for which an encoder has positions; None where its configuration does not say."""
    prompts = embedder.prompts if isinstance(embedder, PromptedEncoder) else None
    shift = prompts.length if prompts is not None and prompts.shift else 0
    most: int | None = getattr(_bare(embedder), "positions", None)
    return None if most is None else most - shift
