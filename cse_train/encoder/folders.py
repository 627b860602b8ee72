"""Folders of encoders, without torch: found, refused where they hold no encoder of texts, read within limits and
hashed.

An encoder is a shipped one, the user's, or a model in the hub's cache. A folder's files are read as they are; nothing
in them is run. What is refused is refused before any weights are read, and says what to do.
"""

import contextlib
import functools
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import huggingface_hub
from safetensors import SafetensorError, safe_open

from cse_train.encoder import gone
from cse_train.fields import ConfigError, nearest
from cse_train.files import PROGRAM_MARK, replace_file
from cse_train.reading import reading, require_size
from cse_train.text.files import file_hash, join_hash
from cse_train.text.tables import hub_is_away
from cse_train.user_files import is_path

if TYPE_CHECKING:
    from transformers import PretrainedConfig

FIRST_BEHIND_PADDING = ("roberta", "xlm-roberta", "camembert", "data2vec-text")
"""Model types whose position ids start behind the padding's id."""
PACKED_KINDS = ("bert", *FIRST_BEHIND_PADDING)


def find_unsupported(config: Any) -> str | None:
    """Returns the reason why `Encoder` cannot compute a transformers configuration exactly; None if it can."""
    if config.model_type not in PACKED_KINDS:
        return f"encoder: model_type={config.model_type} is not one of {', '.join(PACKED_KINDS)}"
    if config.hidden_act != "gelu":
        return f"encoder: hidden_act={config.hidden_act} is not gelu"
    if getattr(config, "is_decoder", False):
        return "encoder: is_decoder=True attends causally"
    if getattr(config, "position_embedding_type", "absolute") != "absolute":
        return f"encoder: position_embedding_type={config.position_embedding_type} is not absolute"
    return None


ADAPTER_FILE = "adapter_config.json"
BASES = "bases"
"""Key in a program's mark of the mapping from a base model's folder to the hash of its files."""
BASE_KEY = "base_model_name_or_path"
BASE_PATTERNS = ("*.json", "*.safetensors", "pytorch_model*.bin")
"""Patterns of the files of a base model whose content is hashed."""
OTHER_PARTS = ("vision_config", "audio_config")
"""Keys in the configuration of a model that reads more than texts."""
STATIC_TENSORS = frozenset(("embedding.weight", "embeddings", "weights", "mapping"))
"""Names of all tensors that sentence-transformers' `StaticEmbedding` and model2vec save."""
STATIC_PLACES = (".", "0_StaticEmbedding")


def require_encoder(folder: Path) -> None:
    """Raises ConfigError, one line, for a folder that is no trainable encoder.

    Refused are adapters, static vectors, quantised weights, code of the folder's own, and positions that transformers
    no longer computes.
    """
    if (folder / ADAPTER_FILE).is_file():
        base = _read(folder / ADAPTER_FILE).get(BASE_KEY) or "its base model"
        line = f"an adapter: train.encoder={folder} changes {base} and is no encoder by itself"
        raise ConfigError([f"{line}; merge the two (merge_and_unload of peft) and give that folder"])
    if find_static_vectors(folder):
        line = f"static vectors: train.encoder={folder} has no layers to train; cse eval scores it"
        raise ConfigError([f"{line}; choose a transformer, or train it by a `trainer:` of yours"])
    config = _read(folder / "config.json")
    if quantisation := config.get("quantization_config"):
        method = quantisation.get("quant_method", "some method") if isinstance(quantisation, dict) else quantisation
        line = f"quantised weights: train.encoder={folder} by {method}"
        raise ConfigError([f"{line}; give the model as it was before, or save it by its dequantize()"])
    if str(positions := config.get("position_embedding_type")).startswith("relative_key"):
        line = f"relative positions: train.encoder={folder} has position_embedding_type={positions}"
        raise ConfigError([f"{line}, which transformers reads as absolute since version 5; choose another model"])
    if config.get("auto_map"):
        from transformers import CONFIG_MAPPING

        if config.get("model_type") in CONFIG_MAPPING:
            return
        line = f"code of its own: train.encoder={folder} is a {config.get('model_type')}, which transformers lacks"
        raise ConfigError([f"{line}, and its folder's code is never run; choose an architecture of transformers"])


def find_static_vectors(folder: Path) -> Path | None:
    """Returns the subfolder with a vector for each token, as model2vec and sentence-transformers save; else None."""
    for place in STATIC_PLACES:
        with (
            contextlib.suppress(SafetensorError, OSError),
            safe_open(folder / place / "model.safetensors", "np") as file,
        ):
            if STATIC_TENSORS.issuperset(file.keys()):
                return folder / place
    return None


def _require_texts_read(config: "PretrainedConfig", folder: Path) -> None:
    """Raises ConfigError, one line, for a model of images or sound, also if it reads texts as well."""
    from transformers import MODEL_MAPPING

    kind = MODEL_MAPPING.get(type(config), None)
    reads = str(getattr(kind, "main_input_name", "input_ids"))
    other = next((part for part in OTHER_PARTS if getattr(config, part, None) is not None), None)
    if reads == "input_ids" and other is None:
        return
    content = f"has a {other} beside its texts" if reads == "input_ids" else f"reads {reads}"
    line = f"no encoder of texts: train.encoder={folder}, a {config.model_type}, {content}"
    raise ConfigError([f"{line}; choose a text model, or save this one's text part alone"])


def _read(file: Path) -> dict[str, object]:
    """Returns the object in a JSON file; empty for a file without one, about which its later reader says more."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        content = json.loads(file.read_text(encoding="utf8"))
        return content if isinstance(content, dict) else {}
    return {}


def place_bases(folder: Path) -> dict[str, str]:
    """Makes the adapters in a folder name their local base models by absolute paths; returns base folder -> hash.

    The adapter is opened from elsewhere. A base of the hub keeps its name and gets no hash.
    """
    bases = {}
    for config in folder.rglob(ADAPTER_FILE):
        settings = json.loads(config.read_text(encoding="utf8"))
        base = Path(settings.get(BASE_KEY) or "").resolve()
        if settings.get(BASE_KEY) and base.is_dir():
            text = json.dumps({**settings, BASE_KEY: str(base)}, indent=2)
            replace_file(config, functools.partial(Path.write_text, data=text, encoding="utf8"))
            bases[str(base)] = _hash_base(base)
    return bases


def require_bases(folder: Path) -> None:
    """Raises ConfigError if a base model of the adapter in this folder is gone, or has changed since the training."""
    mark = folder / PROGRAM_MARK
    bases = json.loads(mark.read_text(encoding="utf8")).get(BASES, {}) if mark.is_file() else {}
    for base, digest in bases.items():
        if not Path(base).is_dir():
            raise ConfigError([f"no such base: model={folder} is an adapter of {base}; put that folder back"])
        if _hash_base(Path(base)) != digest:
            line = (
                f"another base: model={folder} is an adapter of {base}, whose files have changed since it was trained"
            )
            raise ConfigError([f"{line}; put those back"])


def _hash_base(base: Path) -> str:
    return join_hash(*(file_hash(file) for pattern in BASE_PATTERNS for file in sorted(base.rglob(pattern))))[:16]


SMALL_FILES = ["config.json", "tokenizer*", "vocab*", "merges.txt", "special_tokens_map.json"]
SMALL_FILES += ["config_sentence_transformers.json", "*Pooling*/config.json"]

MODEL_FILES = ["*.json", "*.txt", "*.model", "*.safetensors", "*/pytorch_model.bin"]
"""Patterns of a hub model's files, of any library: configurations, vocabularies, and all of its modules' weights."""
OTHER_RUNTIMES = ["onnx/*", "openvino/*"]
"""Patterns of files that copy a model's weights for other runtimes; they are not fetched."""

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt")

FIRST_KINDS = ("bert", "roberta")
"""Model types in `PACKED_KINDS` that `Encoder` has computed since the first release."""
PACKED = "packed"
DEFAULTS = {"model_type": "", "hidden_act": "gelu"}
"""Values of settings that a config.json may leave out."""
MIXES_PADDING = ("convbert", "fnet", "mobilebert", "yoso")
"""Model types in which the padding of a batch reaches the states of its texts: texts of each length go alone."""


@functools.cache
def find_weights() -> Path:
    """Returns the folder of the encoders that come with the package."""
    return Path(str(files("cse_train") / "weights"))


def list_encoders() -> list[str]:
    """Returns the names of the shipped encoders, sorted."""
    return sorted(file.parent.name for file in find_weights().glob("*/config.json"))


def locate(name: str) -> Path:
    """Returns the folder with an encoder's files, for a shipped name, a path, or a hub model.

    A hub model is fetched unless HF_HUB_OFFLINE is set. Paths must be absolute (`absolute_place`), because workers run
    in other folders. Raises ConfigError, one line that says what was tried.
    """
    if "/" not in name and (find_weights() / name / "config.json").is_file():
        return find_weights() / name
    if line := gone.find_gone("train.encoder", name):
        raise ConfigError([line])
    folder = Path(name).expanduser()
    if folder.is_absolute() and folder.is_dir():
        return _check_files(folder, name)
    if folder.is_file():
        raise ConfigError([f"not a folder: train.encoder={name} is a file; give the folder with its config.json"])
    if folder.is_absolute() or is_path(name):
        raise ConfigError([f"missing folder: train.encoder={name}; {nearest(name, list_encoders())}"])
    return _fetch(name)


def weight_files(folder: Path) -> list[Path]:
    """Returns a folder's weight files in transformers' layout, safetensors before pickles; empty if it has none."""
    for pattern in ("model*.safetensors", "pytorch_model*.bin"):
        if files := sorted(folder.glob(pattern)):
            return files
    return []


def tokenizer_folder(folder: Path) -> Path:
    """Returns the folder itself if it has a tokenizer, else the folder that all shipped encoders share.

    Raises ConfigError if neither has a tokenizer.
    """
    if any((folder / name).exists() for name in TOKENIZER_FILES):
        return folder
    if (folder.parent / "tokenizer" / "tokenizer.json").exists():
        return folder.parent / "tokenizer"
    raise ConfigError([f"missing tokenizer: train.encoder={folder}; put its tokenizer.json into the folder"])


def content_hash(folder: Path) -> str:
    """Returns a SHA-256 over an encoder's configuration and its weights as they lie on disk.

    Encoders that earlier versions computed otherwise get another hash than the plain one: those versions let a BERT or
    RoBERTa with `is_decoder` see both ways, embedded by the decoder of an encoder-decoder, let padding reach the texts
    of `MIXES_PADDING`, and drew the dropout of other kinds than `FIRST_KINDS` as transformers does.
    """
    digest, way = _files_digest(folder), _find_way(folder)
    return join_hash(way, digest) if way else digest


def earlier_hash(folder: Path) -> str | None:
    """Returns the content hash that earlier versions gave an encoder whose vectors are still the same; else None.

    The kinds with such a hash ran through `AutoModel` then and run in `Encoder` now.
    """
    return _files_digest(folder) if _find_way(folder) == PACKED else None


def _files_digest(folder: Path) -> str:
    return files_hash([folder / "config.json", *weight_files(folder)])


def _find_way(folder: Path) -> str:
    """Returns how an encoder is computed today if earlier versions computed it otherwise, else an empty text."""
    config = _read(folder / "config.json")
    kind = config.get("model_type")
    ways = {
        "causal": config.get("is_decoder") and kind in FIRST_KINDS,
        "encoder alone": config.get("is_encoder_decoder"),
        "by length": kind in MIXES_PADDING,
        PACKED: kind not in FIRST_KINDS and find_unsupported(SimpleNamespace(**DEFAULTS | config)) is None,
    }
    return next((way for way, applies in ways.items() if applies), "")


def files_hash(paths: Iterable[Path]) -> str:
    """Returns a SHA-256 over the SHA-256 of each file, in order; a file is read again when its size or time changes."""
    return hashlib.sha256(b"".join(bytes.fromhex(file_hash(path)) for path in paths)).hexdigest()


def _check_files(folder: Path, name: str) -> Path:
    if (folder / ADAPTER_FILE).is_file() or find_static_vectors(folder):
        require_encoder(folder)
    if not (folder / "config.json").exists() or not weight_files(folder):
        nested = next((file.parent for file in sorted(folder.glob("*/config.json")) if weight_files(file.parent)), None)
        rule = "needs config.json and model.safetensors in transformers' layout"
        advice = f", as its {nested.name} has: give that one" if nested else ""
        raise ConfigError([f"not an encoder: train.encoder={name}; the folder {rule}{advice}"])
    return folder


def _fetch(name: str) -> Path:
    away = hub_is_away()
    try:
        folder = _snapshot(name, [*SMALL_FILES, "model*.safetensors*"], away)
        if not weight_files(folder):
            folder = _snapshot(name, [*SMALL_FILES, "pytorch_model*.bin*"], away)
    except Exception as error:  # as in find_hub_model
        failure = "cannot be reached" if away else f"gave {type(error).__name__}"
        reason = f"no such shipped encoder or folder, not in the hub's cache, and the hub {failure}"
        raise ConfigError(
            [f"missing encoder: train.encoder={name}; {reason}; {nearest(name, list_encoders())}"]
        ) from error
    return _check_files(folder, name)


def find_hub_model(name: str) -> Path | None:
    """Returns the folder of a hub model that any library saved; None if it cannot be had.

    The hub's cache is searched; a name with its owner is fetched too, unless HF_HUB_OFFLINE is set.
    """
    if is_path(name) or name.count("/") > 1:
        return None
    away = "/" not in name or hub_is_away()
    with contextlib.suppress(Exception):  # the hub client raises a dozen unrelated types; all mean "not to be had"
        folder = _snapshot(name, MODEL_FILES, away)
        return folder if weight_files(folder) else _snapshot(name, [*MODEL_FILES, "pytorch_model*.bin"], away)
    return None


def _snapshot(name: str, files: list[str], cached: bool) -> Path:
    return Path(
        huggingface_hub.snapshot_download(
            name, allow_patterns=files, ignore_patterns=OTHER_RUNTIMES, local_files_only=cached
        )
    )


REMEDY = "fetch the model again"
CONFIG_BYTES = 10_000_000
"""Largest size of a config.json, in bytes."""
SIZE_LIMITS = {
    "num_hidden_layers": 1_000,
    "num_attention_heads": 10_000,
    "hidden_size": 100_000,
    "intermediate_size": 1_000_000,
    "vocab_size": 10_000_000,
    "max_position_embeddings": 10_000_000,
    "type_vocab_size": 10_000,
}
"""Size in an encoder's config.json -> the largest value that it may have."""
NO_TOKEN_TYPES = ("deberta", "deberta-v2")
"""Model types that have no token types by default, and say type_vocab_size=0."""
RATES = ("hidden_dropout_prob", "attention_probs_dropout_prob")
PACKED_RATIO = 4
"""Largest number of weights per byte of a file: weights of four bits, with room to spare."""


def read_config(folder: Path) -> "PretrainedConfig":
    """Reads the configuration of a folder in transformers' layout.

    Raises ConfigError, one line, for one that is unreadable, of an unknown type, or impossible.
    """
    from transformers import AutoConfig

    file = folder / "config.json"
    require_size(file, CONFIG_BYTES, REMEDY)
    require_encoder(folder)
    with reading("unreadable config", file, REMEDY):
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    _require_texts_read(config, folder)
    problems = [f"impossible config: {file}: {line}; {REMEDY}" for line in _problems(config)]
    if problems:
        raise ConfigError(problems)
    return config


def _problems(config: "PretrainedConfig") -> list[str]:
    sizes = {name: getattr(config, name, None) for name in SIZE_LIMITS}
    if config.model_type == "xlnet":  # it says -1: any number of positions
        sizes["max_position_embeddings"] = None
    minimum = dict.fromkeys(sizes, 1) | ({"type_vocab_size": 0} if config.model_type in NO_TOKEN_TYPES else {})
    lines = [
        f"{name}={value!r}, give a whole number from {minimum[name]} to {SIZE_LIMITS[name]}"
        for name, value in sizes.items()
        if value is not None and not (_is(value, int) and minimum[name] <= value <= SIZE_LIMITS[name])
    ]
    lines += [
        f"{name}={value!r}, give a number from 0 to 1"
        for name in RATES
        if (value := getattr(config, name, None)) is not None and not (_is(value, int, float) and 0 <= value < 1)
    ]
    epsilon = getattr(config, "layer_norm_eps", None)
    if epsilon is not None and not (_is(epsilon, int, float) and 0 < epsilon < math.inf):
        lines.append(f"layer_norm_eps={epsilon!r}, give a number above 0")
    width, heads, padding = sizes["hidden_size"], sizes["num_attention_heads"], getattr(config, "pad_token_id", None)
    if not lines and width and heads and width % heads:
        lines.append(f"hidden_size={width} is no multiple of num_attention_heads={heads}")
    if padding is None and config.model_type in FIRST_BEHIND_PADDING:
        lines.append("pad_token_id=None, give the ID of its padding, behind which its positions count")
    vocabulary = sizes["vocab_size"]
    if not lines and vocabulary and padding is not None and not (_is(padding, int) and 0 <= padding < vocabulary):
        lines.append(f"pad_token_id={padding!r} is outside vocab_size={vocabulary}")
    return lines


def _is(value: Any, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def require_weights(config: "PretrainedConfig", folder: Path) -> None:
    """Raises ConfigError if config.json asks for far more weights than the files can hold, before any is made.

    Counted are the embeddings and one layer, which some architectures use many times; for the kinds of `Encoder` every
    layer.
    """
    width = getattr(config, "hidden_size", None) or 0
    inner = getattr(config, "intermediate_size", None) or 0
    layers = config.num_hidden_layers if config.model_type in PACKED_KINDS else 1
    narrow = getattr(config, "embedding_size", None) or width  # ALBERT's and ELECTRA's embeddings may be narrower
    rows = (getattr(config, name, None) or 0 for name in ("vocab_size", "max_position_embeddings"))
    weights = sum(rows) * narrow + layers * (4 * width * width + 2 * width * inner)
    size = sum(path.stat().st_size for path in weight_files(folder))
    if weights > PACKED_RATIO * size:
        line = f"{folder / 'config.json'} asks for {weights} weights, the files beside it have {size} bytes"
        raise ConfigError([f"incomplete weights: {line}; {REMEDY}"])


def require_fitting(name: str, pieces: int, config: "PretrainedConfig") -> None:
    """Raises ConfigError if a model's tokenizer has more pieces than its encoder has rows for them."""
    rows = getattr(config, "vocab_size", None)
    if rows is not None and pieces > rows:
        line = f"{name}: the tokenizer has {pieces} pieces, config.json vocab_size={rows}"
        raise ConfigError([f"wrong tokenizer: {line}; {REMEDY}"])


PROMPTS_FILE = "config_sentence_transformers.json"
POOLING_FILES = "*Pooling*/config.json"
NO_PROMPT = "none"
"""Name that asks for no prompt."""


@dataclass(frozen=True)
class Prompts:
    """Prompts of an encoder's folder; all fields are empty for a folder without any."""

    texts: Mapping[str, str] = field(default_factory=dict)
    """Name -> text of the prompt, which may be empty."""
    default: str | None = None
    averaged: bool = True
    """True if a mean over tokens counts the prompt's tokens (sentence-transformers' `include_prompt`)."""

    def text(self, name: str | None, setting: str, encoder: str) -> str:
        """Returns the text of a prompt by name; None takes the folder's default, `NO_PROMPT` takes none.

        Raises ConfigError for a prompt that the folder does not have; `setting` and `encoder` are the names in its
        message.
        """
        if name is None:
            return self.texts.get(self.default or "", "")
        if name in self.texts or name == NO_PROMPT:
            return self.texts.get(name, "")
        hint = nearest(name, [*self.texts, NO_PROMPT]) if self.texts else "it has none; leave it out"
        raise ConfigError([f"unknown prompt: {setting}={name} of {encoder}; {hint}"])

    def unused(self, text: str, setting: str, encoder: str) -> str | None:
        """Returns a warning if a folder has prompts, but none is in use and none is its default; else None."""
        names = ", ".join(name for name, words in self.texts.items() if words)
        if text or not names or self.default in self.texts:
            return None
        return f"no prompt is used: {encoder} has {names} and no default; {setting}=NAME takes one, none is without"


def read_prompts(folder: Path) -> Prompts:
    """Reads the prompts of an encoder's folder. Raises ConfigError, one line, for a damaged file."""
    if not (folder / PROMPTS_FILE).is_file():
        return Prompts()
    with reading("unreadable prompts", folder / PROMPTS_FILE, REMEDY):
        settings = json.loads((folder / PROMPTS_FILE).read_text(encoding="utf8"))
        texts = {str(name): str(text) for name, text in (settings.get("prompts") or {}).items() if text is not None}
        default = settings.get("default_prompt_name")
        poolings = [json.loads(file.read_text(encoding="utf8")) for file in sorted(folder.glob(POOLING_FILES))]
        averaged = all(pooling.get("include_prompt", True) for pooling in poolings)
    return Prompts(texts, default if isinstance(default, str) else None, averaged)


def prompt_tokens(tokenizer: Any, text: str) -> int:
    """Returns the number of tokens that a prompt puts in front of a text, with a special token at its front.

    sentence-transformers counts the same.
    """
    ids = tokenizer(text)["input_ids"] if text else []
    return len(ids) - bool(ids and ids[-1] in tokenizer.all_special_ids)
