"""Opens any sentence encoder as a TextModel: a run, a transformers or sentence-transformers folder, word vectors.

A sentence-transformers or model2vec folder is run by its own library, so that numbers equal its numbers; without that
library one that `cse export` wrote is run by transformers.
Shape suffixes: N texts, D embedding size.
"""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from cse_train import distributed
from cse_train.checkpoint import BEST, LoadedRun, load_model
from cse_train.encoder.backbone import Backbone, load_backbone
from cse_train.encoder.encoder import PromptedEncoder
from cse_train.encoder.folders import (
    MIXES_PADDING,
    Prompts,
    files_hash,
    find_static_vectors,
    list_encoders,
    locate,
    prompt_tokens,
    read_prompts,
    require_bases,
    require_encoder,
    require_fitting,
    weight_files,
)
from cse_train.encoder.frozen_encoder import FrozenEncoder
from cse_train.encoder.gone import find_gone
from cse_train.encoder.pooling import POOLERS, SentencePooler, has_projector
from cse_train.encoder.reading_order import first_token_problem, others_than_first, reads_first
from cse_train.encoder.weight_files import read_tensors, require_safe
from cse_train.evaluate.embedding import Embedder, Encode, NotFinite, require_finite
from cse_train.evaluate.exported_folders import embed_in_batches, load_modules, pooler_of, read_exported
from cse_train.evaluate.vectors import MAX_LENGTH, TextModel, require_texts
from cse_train.fields import ConfigError, nearest
from cse_train.files import holds_program_model, lacks_program_model
from cse_train.numerics import fast_fp32
from cse_train.text.files import file_hash
from cse_train.text.vector_files import SUFFIXES, Places, names_vectors, read_places, read_vectors

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
    strict: bool = True,
) -> TextModel:
    """Opens a model on this rank's device, in eval mode and fp32, from any of these: a run's folder (or its best/), a
    transformers folder or shipped encoder, a sentence-transformers or model2vec folder, or a file of word vectors.

    All but a plain encoder bring their pooler; `pooler` replaces that of a run, and is required for a plain encoder;
    `prompt` names another of the encoder's prompts than the one that it was trained with, or than the default;
    `encoder` is where a run's encoder is now; `strict` False keeps fewer than `max_length` tokens where a plain encoder
    has fewer positions, as training does. Raises ConfigError for a folder that is no model, a pooler that would
    read weights nobody trained, and a `max_length` beyond the positions; CorruptCheckpoint, also for a run of another
    `signature`.
    """
    path = Path(path_or_run_folder)
    if pooler is not None and pooler not in POOLERS:
        raise ConfigError([f"unknown pooler: pooler={pooler}; {nearest(pooler, POOLERS)}"])
    if (of_program := _find_program_model(path)) is not None:
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
        return _open_library_model(path, pooler, max_length, prompt)
    if str(path) in list_encoders() or ((path / "config.json").is_file() and weight_files(path)):
        return _open_encoder(path, pooler, max_length, prompt, strict)
    if line := find_gone("model", str(path)):
        raise ConfigError([line])
    require_encoder(path)
    absent = "has no run's checkpoint, no modules.json, and no config.json with weights"
    reason = absent if path.is_dir() else f"is no folder; {nearest(str(path), list_encoders())}"
    raise ConfigError([f"not a model: model={path} {reason}; {MODEL_ADVICE}"])


def _find_program_model(path: Path) -> Path | None:
    """Returns the folder of the best model in a training program's run; None for any other folder."""
    return next((folder for folder in (path, path / BEST.parent) if holds_program_model(folder)), None)


def is_run(path: Path) -> bool:
    """Returns whether a folder is a run of the built-in training loop, or the best/ of one."""
    return _find_program_model(path) is None and ((path / BEST).is_file() or _has_run_header(path / BEST.name))


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


def _open_encoder(
    path: Path, pooler: str | None, max_length: int | None, prompt: str | None, strict: bool
) -> PackedModel:
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
    strict = strict and max_length is not None
    opened = _make_model(facts, model.eval(), model.encoder, model, backbone.tokenizer, strict=strict)
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
        configs = (getattr(module, "config", None) for module in self.model.modules())
        kinds = {getattr(config, "model_type", "") for config in configs}
        with torch.inference_mode():
            embeddings = self.model.encode(
                distinct,
                prompt=self.prompt if prompt is None else prompt,
                batch_size=1 if kinds & set(MIXES_PADDING) else EMBEDDED_ROWS,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
        embeddings_UD = np.asarray(embeddings, dtype=np.float32)
        require_finite(embeddings_UD, self.name, "its weights are damaged, fetch or save the model again")
        return embeddings_UD[[row_of[text] for text in texts]]


@dataclass(frozen=True)
class ExportedModel(TextModel):
    """A folder that `cse export` wrote, in fp32 and eval mode, where sentence-transformers is not installed."""

    encode: Callable[[Sequence[str]], torch.Tensor]
    """Function from texts to their embeddings [N, D], in one padded batch."""

    def embed(self, texts: Sequence[str], prompt: str | None = None) -> np.ndarray:
        """Embeds texts as `TextModel.embed`, each distinct one once."""
        require_texts(texts)
        distinct = list(dict.fromkeys(texts))
        row_of = {text: row for row, text in enumerate(distinct)}
        front = self.prompt if prompt is None else prompt
        embeddings_UD = embed_in_batches(self.encode, front)(distinct).astype(np.float32)
        require_finite(embeddings_UD, self.name, "its weights are damaged, export the model again")
        return embeddings_UD[[row_of[text] for text in texts]]


def _open_library_model(
    folder: Path, pooler: str | None, max_length: int | None, prompt: str | None
) -> LibraryModel | ExportedModel:
    """Opens a model folder of the library; without the library, one that was exported here.

    ConfigError where the library is missing for another folder or fails, or a pooler is given.
    """
    if pooler is not None:
        line = f"two poolers: pooler={pooler}, but model={folder} is a sentence-transformers folder"
        raise ConfigError([f"{line} with a pooling of its own; leave the pooler out"])
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        kinds = read_exported(folder)
        if kinds is not None and ("PromptedTransformer" not in kinds or holds_our_module(folder)):
            return _open_exported(folder, kinds, max_length, prompt)
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
    facts = (str(folder), _pooler_of(model), limit, _hash_weights(folder))
    return LibraryModel(*facts, model, prompts=prompts.texts, prompt=text)


def _open_exported(folder: Path, kinds: list[str], max_length: int | None, prompt: str | None) -> ExportedModel:
    require_safe(folder)
    limits = [*folder.glob("sentence_bert_config.json"), *folder.glob("*/prompts.json")]
    limit = max_length or int(json.loads(limits[0].read_text(encoding="utf8"))["max_seq_length"])
    prompts = read_prompts(folder)
    facts = (str(folder), _name_pooler(kinds, pooler_of(folder)), limit, _hash_weights(folder))
    text = prompts.text(prompt, "prompt", str(folder))
    return ExportedModel(*facts, load_modules(folder, limit), prompts=prompts.texts, prompt=text)


def _hash_weights(folder: Path) -> str:
    patterns = ("*.json", "*.safetensors", "pytorch_model*.bin")
    return files_hash(file for pattern in patterns for file in sorted(folder.rglob(pattern)))


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
    return _name_pooler(kinds, LIBRARY_POOLERS.get(mode, mode))


def _name_pooler(kinds: list[str], pooler: str) -> str:
    """Returns the pooler of modules of these classes, of which the pooling module alone is `pooler`."""
    if kinds == ["Transformer", "Pooling"]:
        return pooler
    if kinds == ["Transformer", "Pooling", "Dense"] and pooler == LIBRARY_POOLERS["cls"]:
        return "cls"
    return "sentence-transformers: " + " + ".join(kinds)


HASH_DIGITS = 12
"""Digits of the file's hash in the pooler's name."""


@dataclass(frozen=True, kw_only=True)
class WordVectorAverage(TextModel):
    """Model that embeds a text as the mean of its words' vectors (SentEval, examples/bow.py; DeCLUTR 4.2).

    A word is what stands between blanks, as SentEval's texts are tokenised: as it is, else in lower case. Unknown words
    are left out; a text without a known word is 0.
    """

    file: Path
    size: int
    places: Places
    vectors: dict[bytes, np.ndarray] = field(default_factory=dict)
    """Vectors read from the file so far: a file may have 5 GB, so only needed words are loaded."""

    def embed(self, texts: Sequence[str], prompt: str | None = None) -> np.ndarray:
        """Embeds texts as `TextModel.embed`. Raises ConfigError for a line with something that is no number."""
        require_texts(texts)
        keys_of = [[key for word in text.split()[: self.max_length] if (key := self._key(word))] for text in texts]
        unread = {key for keys in keys_of for key in keys} - self.vectors.keys()
        self.vectors.update(read_vectors(self.file, self.size, {key: self.places[key] for key in unread}))
        means_ND = np.zeros((len(texts), self.size), dtype=np.float32)
        for row, keys in enumerate(keys_of):
            if keys:
                means_ND[row] = np.mean([self.vectors[key] for key in keys], axis=0)
        return means_ND

    def _key(self, word: str) -> bytes | None:
        forms = (word.encode("utf8", "surrogatepass"), word.lower().encode("utf8", "surrogatepass"))
        return next((form for form in forms if form in self.places), None)


def open_word_vectors(file: Path, max_length: int | None = None) -> WordVectorAverage:
    """Opens a file of word vectors, reading it once for its hash and once for the places of its words.

    Raises ConfigError, one line, for a packed file and as `read_places`.
    """
    if file.suffix not in SUFFIXES:
        wrong = f"not word vectors: model={file}; give a text file of {' or '.join(SUFFIXES)}"
        raise ConfigError([f"{wrong}, a word and its numbers on a line, unpacked"])
    size, places = read_places(file)
    content_hash = file_hash(file)
    return WordVectorAverage(
        name=str(file),
        pooler=f"mean of {file.name}, sha256 {content_hash[:HASH_DIGITS]}",
        max_length=max_length or MAX_LENGTH,
        content_hash=content_hash,
        file=file,
        size=size,
        places=places,
    )
