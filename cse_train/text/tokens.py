"""Tokenised corpora on disk: written once per (tokenizer, source, length), then memory-mapped by every run.

A store is a cache folder of `files.open_built`; a store whose files do not match its `meta.json` is built again.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from cse_train import random_streams
from cse_train.fields import ConfigError
from cse_train.files import cache_folder, open_built
from cse_train.text.file_corpora import Source
from cse_train.text.files import chunks

TOKENS_FORMAT = 1
"""Version of the files of a token store, raised whenever their meaning changes."""
ROWS_AT_ONCE = 4096
"""Most rows tokenised at once, fewer where they are long: a document takes a thousand times a sentence's memory."""
STORE_PARTS = {"flat": np.int32, "starts": np.int64, "lengths": np.int32, "word_starts": np.uint8}
"""Fields of `TokenColumn`, each a file of the store -> dtype on disk."""


@dataclass(frozen=True)
class TokenColumn:
    """One tokenised text column; row i is `flat[starts[i] : starts[i] + lengths[i]]`. All arrays are read-only."""

    flat: np.ndarray
    """int32 [T]: ids with special tokens, truncated to the store's length."""
    starts: np.ndarray
    """int64 [rows]: index in `flat` of each row's first id."""
    lengths: np.ndarray
    """int32 [rows]: number of ids in each row, special tokens included."""
    word_starts: np.ndarray
    """uint8 [T]: 1 where a piece begins a whitespace-delimited word, and at special tokens."""

    def row(self, index: int) -> np.ndarray:
        """Returns the ids of one row, special tokens included."""
        return self.flat[self.starts[index] : self.starts[index] + self.lengths[index]]


@dataclass(frozen=True)
class TokenStore:
    """A tokenised corpus in the cache, memory-mapped."""

    rows: int
    columns: tuple[str, ...]
    content_hash: str
    """Hash of tokenizer, text and length; also the name of the store's folder."""
    folder: Path
    arrays: dict[str, TokenColumn]

    def column(self, name: str) -> TokenColumn:
        """Returns the arrays of a column; ConfigError, which names the existing columns, for an unknown one."""
        if name not in self.arrays:
            have = ", ".join(self.columns)
            raise ConfigError(
                [f"missing column: the corpus has {have} but the method reads {name}; change train.corpus"]
            )
        return self.arrays[name]

    def make_ready(self, place: random_streams.Place, examples: int) -> None:
        """Prepares data that the next `examples` examples need in addition to their tokens; the base class needs none.

        Called by the thread that trains: unlike a batch, what is made here may draw from torch's global generators.
        """


def tokenizer_hash(tokenizer: Any) -> str:
    """Returns the hash of all that decides a text's ids; truncation and padding of the last call do not count."""
    return state_hash(_require_fast(tokenizer).backend_tokenizer.to_str())


@lru_cache(maxsize=4)
def state_hash(text: str) -> str:
    """Returns the hash of a tokenizer's state (JSON), equal under every release of the package tokenizers.

    Cached, because every run of a worker asks for it twice: 11 ms each for 8,192 pieces.
    """
    return hashlib.sha256(json.dumps(canonical(json.loads(text)), sort_keys=True).encode()).hexdigest()


TOKENIZER_KEYS: Mapping[str, frozenset[str]] = {
    kind: frozenset(names.split())
    for kind, names in {
        "Tokenizer": "version truncation padding added_tokens normalizer pre_tokenizer post_processor decoder model",
        "AddedToken": "id content single_word lstrip rstrip normalized special",
        "BPE": "dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk byte_fallback ignore_merges",
        "WordPiece": "unk_token continuing_subword_prefix max_input_chars_per_word prefix cleanup",
        "WordLevel": "unk_token",
        "Unigram": "unk_id byte_fallback",
        "BertNormalizer": "clean_text handle_chinese_chars strip_accents lowercase",
        "Strip": "strip_left strip_right content start stop",
        "Replace": "pattern content",
        "Prepend": "prepend",
        "Precompiled": "precompiled_charsmap",
        "Sequence": "normalizers pretokenizers processors decoders",
        "ByteLevel": "add_prefix_space trim_offsets use_regex",
        "CharDelimiterSplit": "delimiter",
        "Metaspace": "replacement prepend_scheme split",
        "Split": "pattern behavior invert",
        "Punctuation": "behavior",
        "Digits": "individual_digits",
        "FixedLength": "length",
        "BertProcessing": "sep cls",
        "RobertaProcessing": "sep cls trim_offsets add_prefix_space",
        "TemplateProcessing": "single pair",
        "BPEDecoder": "suffix",
        "CTC": "pad_token word_delimiter_token cleanup",
        **dict.fromkeys(("NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Lowercase", "Nmt", "BertPreTokenizer"), ""),
        **dict.fromkeys(("Whitespace", "WhitespaceSplit", "UnicodeScripts", "Fuse", "ByteFallback"), ""),
    }.items()
}
"""Type of a tokenizer's component -> keys of its JSON under tokenizers 0.23 (of all types with that name)."""
TOKENIZER_TABLES = ("type", "vocab", "merges", "special_tokens")
"""Keys that any component of a tokenizer may have; all but `type` are tables of the tokenizer's own words."""
Place = tuple[str | int, ...]
"""Path of keys and list indices to a value within a tokenizer's JSON."""
TokenizerState = dict[str, Any]
"""State of a tokenizer, parsed from its JSON."""


def canonical(state: TokenizerState) -> TokenizerState:
    """Returns a tokenizer's state as tokenizers 0.23 writes it, without truncation and padding of the last call.

    Merges are pairs. A key that only later releases write is left out where it has its default: the value that such a
    release puts back by itself when the key is taken away.
    """
    state = {**state, "version": "1.0", "truncation": None, "padding": None}
    model = dict(state.get("model") or {})
    if "merges" in model:
        model["merges"] = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
        state["model"] = model
    places = list(_find_unlisted(state, "Tokenizer"))
    bare = json.loads(json.dumps(state)) if places else state
    for *way, key in places:
        del _look_up(bare, way)[key]
    refilled = _rewrite(bare) if places else {}
    for *way, key in places:
        value = _look_up(state, way)[key]
        if key not in (at := _look_up(refilled, way)) or at[key] != value:
            _look_up(bare, way)[key] = value
    del bare["truncation"], bare["padding"]
    return bare


def _find_unlisted(value: Any, kind: str, place: Place = ()) -> Iterator[Place]:
    """Yields the places of keys that `TOKENIZER_KEYS` lacks; a component of an unknown type is skipped."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_unlisted(item, kind, (*place, index))
    elif isinstance(value, dict):
        listed = TOKENIZER_KEYS.get(str(value.get("type", kind)))
        for key, item in value.items():
            if listed is not None and key not in (*listed, *TOKENIZER_TABLES):
                yield (*place, key)
            elif key not in TOKENIZER_TABLES:
                yield from _find_unlisted(item, "AddedToken" if key == "added_tokens" else "", (*place, key))


def _look_up(state: Any, way: Sequence[str | int]) -> Any:
    """Returns the value at a place in a tokenizer's state; an empty dict where the place does not exist."""
    for step in way:
        try:
            state = state[step]
        except (LookupError, TypeError):
            return {}
    return state


def _rewrite(state: TokenizerState) -> Any:
    """Returns a state as the installed release of tokenizers writes it; an empty dict where it cannot read it."""
    try:
        return json.loads(Tokenizer.from_str(json.dumps(state)).to_str())
    except Exception:  # the tokenizers raise nothing narrower
        return {}


def open_store(source: Source, tokenizer: Any, max_length: int | None, cache: Path | None = None) -> TokenStore:
    """Returns a corpus as tokens, built on first use. `max_length` None keeps whole texts.

    `cache` None: the folder CSE_CACHE, else ~/.cache/cse-search.

    Raises ConfigError for an empty source, a tokenizer without a fast form, or a cache that cannot be written.
    """
    identity = {
        "format": TOKENS_FORMAT,
        "tokenizer": tokenizer_hash(tokenizer),
        "source": source.content_hash,
        "max_length": max_length,
    }
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]
    folder = (cache or cache_folder()) / "tokens" / key
    return open_built(folder, _load, partial(_write, source, tokenizer, max_length, identity))


def _require_fast(tokenizer: Any) -> Any:
    if not getattr(tokenizer, "is_fast", False):
        name = type(tokenizer).__name__
        raise ConfigError([f"slow tokenizer: {name} has no fast form; save one with tokenizer.json beside the encoder"])
    return tokenizer


def _load(folder: Path) -> TokenStore | None:
    """Maps a finished store; None when it is absent, half-written, or replaced during the read."""
    try:
        meta = json.loads((folder / "meta.json").read_text())
        if any((folder / name).stat().st_size != size for name, size in meta["bytes"].items()):
            return None
        arrays = {
            column: TokenColumn(
                **{
                    part: np.memmap(folder / f"{index}.{part}", dtype=dtype, mode="r").view(np.ndarray)
                    for part, dtype in STORE_PARTS.items()
                }
            )
            for index, column in enumerate(meta["columns"])
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return TokenStore(meta["rows"], tuple(meta["columns"]), folder.name, folder, arrays)


def _write(source: Source, tokenizer: Any, max_length: int | None, identity: TokenizerState, aside: Path) -> None:
    columns = len(source.columns)
    with contextlib.ExitStack() as stack:
        files = [
            {part: stack.enter_context((aside / f"{column}.{part}").open("wb")) for part in STORE_PARTS}
            for column in range(columns)
        ]
        rows = 0
        ends = [0] * columns
        for chunk in chunks(source.rows(), ROWS_AT_ONCE):
            rows += len(chunk)
            for column, texts in enumerate(zip(*chunk, strict=True)):
                flat, lengths, word_starts = tokenise(texts, tokenizer, max_length)
                parts = (flat, ends[column] + np.cumsum(lengths) - lengths, lengths, word_starts)
                for (part, dtype), values in zip(STORE_PARTS.items(), parts, strict=True):
                    files[column][part].write(values.astype(dtype).tobytes())
                ends[column] += len(flat)
        # On the disk before meta.json, whose sizes make the store count as complete.
        for file in (file for column in files for file in column.values()):
            file.flush()
            os.fsync(file.fileno())
    if rows == 0:
        raise ConfigError([f"empty data: train.corpus={source.name} has no sentence; give another file"])
    sizes = {path.name: path.stat().st_size for path in sorted(aside.iterdir())}
    meta = {"rows": rows, "columns": source.columns, "bytes": sizes, "identity": identity, "source": source.name}
    (aside / "meta.json").write_text(json.dumps(meta, indent=1))


def tokenise(texts: Sequence[str], tokenizer: Any, max_length: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokenises texts to (flat ids [T], lengths [N], word starts [T]), special tokens included, cut to `max_length`."""
    encoded = _require_fast(tokenizer)(
        list(texts),
        truncation=max_length is not None,
        max_length=max_length,
        verbose=False,
        return_attention_mask=False,
        return_token_type_ids=False,
    )
    lengths = np.array([len(ids) for ids in encoded["input_ids"]], dtype=np.int64)
    flat = np.fromiter(chain.from_iterable(encoded["input_ids"]), np.int32, int(lengths.sum()))
    pieces = encoded.encodings
    offsets = chain.from_iterable(chain.from_iterable(e.offsets for e in pieces))
    spans = np.fromiter(offsets, np.int64, 2 * len(flat)).reshape(-1, 2)
    special = np.fromiter(chain.from_iterable(e.special_tokens_mask for e in pieces), np.bool_, len(flat))
    return flat, lengths, _word_starts(texts, spans, special, lengths)


def _word_starts(texts: Sequence[str], spans: np.ndarray, special: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns uint8 [T]: 1 at special tokens and at the first piece whose span reaches the first character of a word.

    Byte-level tokenizers need the care: the blank before a word may be a piece of its own with an empty span, and the
    bytes of one character share a span.
    """
    words_before, first_char = _words_before(texts)
    starts = np.repeat(first_char, lengths) + spans[:, 0]
    ends = np.maximum(starts + 1, np.repeat(first_char, lengths) + spans[:, 1])
    reaches = (words_before[ends] > words_before[starts]) & ~special
    word = np.where(reaches, words_before[starts], -1)
    begins: np.ndarray = special | (reaches & (word != np.roll(word, 1)))
    return begins.astype(np.uint8)


def _words_before(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns, for texts joined by blanks, how many words begin before each character, and where each text begins."""
    points = np.frombuffer("".join(f"{text} " for text in texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    distinct, inverse = np.unique(points, return_inverse=True)
    blank = np.array([chr(point).isspace() for point in distinct])[inverse]
    begins = ~blank & np.append(True, blank[:-1])
    sizes = np.array([len(text) + 1 for text in texts])
    return np.append(0, np.cumsum(begins)), np.cumsum(sizes) - sizes
