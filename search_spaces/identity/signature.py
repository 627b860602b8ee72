"""A run's signature: a hash of everything that changes its result, and of nothing else.

In: method and its VERSION, every option, every training setting (seed, global batch, examples, evaluations, precision,
dev truncation), content hashes of encoder, tokenizer, corpus and dev set, the rules of training and evaluation, and the
number of ranks where the method says that it matters. Out: paths, names of what a content hash stands for, Ray.
"""

import contextlib
import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cse_train import fields
from cse_train.config import RunConfig, effective, epochs_in, examples_of
from cse_train.data_paths import DataPaths
from cse_train.encoder.folders import earlier_hash, locate
from cse_train.encoder.identity import backbone_identity, has_masked_lm_head, prompt_identity
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.suites.registry import set_hash
from cse_train.fields import ConfigError, Scalar
from cse_train.results import CODE_VERSION
from cse_train.text.corpora import open_source, rows_of
from cse_train.text.files import Stamp, stamp
from cse_train.text.tables import hub_left_alone
from cse_train.user_files import CHANGED, MISSING
from search_spaces.identity.method_code import own_digest

NAMED_BY_HASH = ("encoder", "corpus", "dev")
"""Settings whose content is hashed instead of their name."""
LENGTH = "examples"
"""Key of the number of examples among a run's inputs, for runs whose length is given in epochs."""
GENERATOR = "generator"
"""Key of the masked-LM generator among the inputs of a method that fills masked tokens."""
PROMPT = "prompt"
"""Key of the text in front of every sentence among a run's inputs; absent for runs without one."""
DATA = "data."
"""Prefix of the keys of a run's inputs that are files or folders declared by a user's trainer."""
CODE = "code"
"""Key of the digest of a method's own code among a run's inputs; absent for methods as released (`method_code`)."""
SIGNATURE_DIGITS = 24
"""Number of hexadecimal digits of a signature."""
SEED_PLACEHOLDER = "\0seed"
"""Placeholder for the seed in a text in which many seeds are filled."""
TRAINING = 1
"""Version of the training loop, raised whenever the loop's numbers change for every method."""
SIGNED_RULES = {
    "training": TRAINING,
    "best": "first strict maximum of dev Spearman",
    "evaluations": "evenly spaced in examples",
    "batches": "ragged last batch of an epoch dropped",
}
"""Rules of training that no setting expresses."""
PROTOCOL = {"aggregation": "all", "precision": "fp32", "code_version": CODE_VERSION}
"""Rules by which dev scores are computed."""
PUBLISHED_ROWS = {
    "nli": 275_601,
    "pairs:qqp": 134_000,
    "pairs:flickr30k": 318_000,
    "pairs:paranmt": 5_000_000,
    "pairs:nli_entailment": 314_000,
    "pairs:nli_neutral": 314_000,
    "pairs:nli_contradiction": 314_000,
    "pairs:nli_all": 942_000,
    "pairs:nli_anli": 275_601 + 52_000,
}
"""Corpus -> number of rows as SimCSE prints them in thousands (Table 4); nli: the rows of nli_for_simcse.csv."""
SAMPLE = "_sample"
SAMPLE_ROWS = 134_000
"""Number of pairs of each set in the column "sample" of SimCSE's Table 4 (its caption)."""

Identity = dict[str, str | int]


def identity(run: RunConfig, paths: DataPaths, workers: int = 1, absent: dict[str, str] | None = None) -> Identity:
    """Returns content hashes of a run's inputs; `workers` only where the method's result depends on it.

    A missing input raises ConfigError. Given the mapping `absent`, it gets a placeholder instead and its problem is
    noted there under encoder, corpus, dev or method: good for counting runs, never for the ledger. Hashes are cached as
    long as the files stay as they are.
    """
    hashes = _shared_inputs(run, paths, absent) if run.options.SHARED is None else {}
    hashes |= _further(run, absent)
    if run.options.SHARED is None:
        hashes |= _length(run, paths, absent) | _prompt(run, absent)
    if code := own_digest(run.method):
        hashes[CODE] = code
    return hashes | {"workers": workers} if run.options.rank_dependent() else hashes


def _shared_inputs(run: RunConfig, paths: DataPaths, absent: dict[str, str] | None) -> Identity:
    """Returns content hashes of encoder, tokenizer, corpus and dev set, which the shared settings name."""
    encoder = _or_placeholder("encoder", _backbone, absent, run.train.encoder)
    hashes: Identity = {"encoder": encoder[0], "tokenizer": encoder[-1]}
    files = _stamps(paths)
    hashes["corpus"] = _or_placeholder("corpus", _corpus, absent, run.train.corpus, paths, files)[0]
    hashes["dev"] = _or_placeholder("dev", _dev, absent, run.train.dev, paths, files)[0]
    return hashes


def inputs_at_hand(run: RunConfig, paths: DataPaths) -> Identity:
    """Returns `identity` without absent inputs, the number of ranks and the method's code; downloads nothing."""
    with hub_left_alone():
        hashes = identity(run, paths, absent={})
    excluded = ("workers", CODE)
    return {k: v for k, v in hashes.items() if k not in excluded and not str(v).startswith("absent")}


def encoder_hash(name: str) -> str | None:
    """Returns the content hash of an encoder that is at hand, else None; downloads nothing."""
    with hub_left_alone(), contextlib.suppress(ConfigError):
        return _backbone(name)[0]
    return None


def holds_encoder(name: str, identity: Mapping[str, str | int]) -> bool:
    """Tells whether the encoder of this name is at hand and equals the one with which a run of `identity` began."""
    with hub_left_alone(), contextlib.suppress(ConfigError):
        hashes, began = _backbone(name), identity.get("encoder")
        return identity.get("tokenizer") == hashes[-1] and (began == hashes[0] or began == earlier_hash(locate(name)))
    return False


def wrong_inputs(run: RunConfig, paths: DataPaths, planned: Mapping[str, str | int]) -> dict[str, str]:
    """Returns setting -> a line on its input that is absent or differs from the plan; empty where all inputs agree."""
    absent: dict[str, str] = {}
    now = identity(run, paths, absent=absent)
    lines = {f"train.{part}": f"{MISSING}{line}" for part, line in absent.items()}
    wrong: dict[str, str] = {}
    for part, value in planned.items():
        if (name := find_setting(part)) is not None and now.get(part) != value:
            change = f"{CHANGED}{name}={run.flat().get(name, '')} held {part} {str(value)[:8]} when the run was planned"
            advice = f"{change}, and holds {str(now.get(part))[:8]}; give the same command again"
            wrong.setdefault(name, lines.get(name) or (lines.get("train.method") if part in name else None) or advice)
    return wrong


@functools.cache
def find_setting(part: str) -> str | None:
    """Returns the setting that names an input; None for an input that is no file, such as the number of ranks."""
    settings = {"tokenizer": "train.encoder", **{name: f"train.{name}" for name in NAMED_BY_HASH}}
    return part if part.startswith(("method.", DATA)) else settings.get(part)


def _prompt(run: RunConfig, absent: dict[str, str] | None) -> Identity:
    """Returns the text in front of every sentence as an input; empty where there is none."""
    try:
        text = prompt_identity(run.train.encoder, run.train.prompt)
    except ConfigError as error:
        if absent is None:
            raise
        absent.setdefault("encoder", "; ".join(error.problems))
        text = ""
    return {PROMPT: text} if text else {}


def _further(run: RunConfig, absent: dict[str, str] | None) -> Identity:
    """Returns content hashes of what the method reads besides encoder and corpus, under the names of its options."""
    try:
        inputs = run.options.inputs()
    except ConfigError as error:
        encoder, key = run.train.encoder, f"method.{GENERATOR}"
        lines = error.problems
        with contextlib.suppress(ConfigError):  # an encoder that is not at hand
            named = [f"{key}=" in line and str(run.flat()[key]) != encoder for line in lines]
            if any(named) and has_masked_lm_head(encoder):
                advice = f"; or set {key}={encoder}, which has a masked-LM head of its own vocabulary"
                lines = [line + advice if is_named else line for line, is_named in zip(lines, named, strict=True)]
        if absent is None:
            raise ConfigError(lines) from error
        absent["method"] = "; ".join(lines)
        inputs = {"inputs": "absent"}
    if GENERATOR in inputs and (line := _other_vocabulary(run)):
        if absent is None:
            raise ConfigError([line])
        absent["method"] = line
    return {f"{run.options.PREFIX or DATA}{name}": digest for name, digest in inputs.items()}


def _other_vocabulary(run: RunConfig) -> str | None:
    """Returns a line on a generator with other token IDs than the encoder.

    None where they agree or one is not at hand.
    """
    encoder, key = run.train.encoder, f"method.{GENERATOR}"
    generator = str(run.flat()[key])
    try:
        if _backbone(encoder)[-1] == _backbone(generator)[-1]:
            return None
    except ConfigError:
        return None
    give = f"set {key}={encoder}, which has one" if has_masked_lm_head(encoder) else "give one with its tokenizer"
    line = f"another vocabulary: {key}={generator} reads other token ids than train.encoder={encoder}"
    return f"{line}, and must be a masked language model of the same; {give}"


def _length(run: RunConfig, paths: DataPaths, absent: Mapping[str, str] | None) -> Identity:
    """Returns the examples of a run whose length is in epochs; for an absent corpus by the rows that papers print."""
    epochs = epochs_in(run.train.examples)
    if epochs is None:
        return {}
    corpus = run.train.corpus
    rows: int | None
    if "corpus" not in (absent or {}):
        rows = rows_of(corpus, paths)
    elif corpus.startswith("pairs:") and corpus.endswith(SAMPLE):
        rows = SAMPLE_ROWS
    else:
        rows = PUBLISHED_ROWS.get(corpus)
    return {} if rows is None else {LENGTH: examples_of(epochs, rows)}


def examples_in(run: RunConfig, identity: Mapping[str, str | int]) -> int | None:
    """Returns the training examples of the whole run; None where they depend on a corpus of unknown size."""
    length = run.train.examples
    counted = identity.get(LENGTH) if isinstance(length, str) else length
    return counted if isinstance(counted, int) else None


def _or_placeholder(
    part: str, hashes: Callable[..., tuple[str, ...]], absent: dict[str, str] | None, *arguments: Any
) -> tuple[str, ...]:
    try:
        return hashes(*arguments)
    except ConfigError as error:
        if absent is None:
            raise
        absent[part] = "; ".join(error.problems)
        return (f"absent:{arguments[0]}",)


def signature(run: RunConfig, identity: Mapping[str, str | int]) -> str:
    """Returns a run's signature, 24 hexadecimal digits, the same on every machine."""
    text = _text(describe_signature(run, identity))
    return hashlib.sha256(text.encode()).hexdigest()[:SIGNATURE_DIGITS]


def seed_signature(run: RunConfig, identity: Mapping[str, str | int]) -> Callable[[int], str]:
    """Returns a function from seed to signature; many seeds cost little more than one."""
    return _of_seed(describe_signature(run, identity))


def list_signatures(run: RunConfig, identity: Mapping[str, str | int]) -> dict[int, Callable[[int], str]]:
    """Returns VERSION -> function from seed to signature, for each VERSION up to today's, newest first."""
    payload, today = describe_signature(run, identity), run.options.version()
    return {version: _of_seed(payload | {"version": version}) for version in range(today, 0, -1)}


def possible_signatures(run: RunConfig, identity: Mapping[str, str | int]) -> dict[tuple[int, int, int], str]:
    """Returns (VERSION, rules of training, rules of evaluation) -> the run's signature, for all up to today's."""
    payload, today = describe_signature(run, identity), run.options.version()
    return {
        (version, training, code): _of_seed(
            payload
            | {"version": version, "rules": payload["rules"] and SIGNED_RULES | {"training": training}}
            | {"protocol": PROTOCOL | {"code_version": str(code)}}
        )(run.train.seed)
        for version in range(today, 0, -1)
        for training in range(TRAINING, 0, -1)
        for code in range(int(CODE_VERSION), 0, -1)
    }


def _of_seed(payload: Mapping[str, Any]) -> Callable[[int], str]:
    # The text around the seed is hashed once, and the hash copied for each seed.
    before, after = _text({**payload, "train": payload["train"] | {"seed": SEED_PLACEHOLDER}}).split(
        json.dumps(SEED_PLACEHOLDER)
    )
    prefix = hashlib.sha256(before.encode())

    def signed(seed: int) -> str:
        digest = prefix.copy()
        digest.update(f"{seed:d}{after}".encode())
        return digest.hexdigest()[:SIGNATURE_DIGITS]

    return signed


def _text(payload: Mapping[str, object]) -> str:
    return json.dumps(payload, sort_keys=True, separators=(",", ":"), allow_nan=False)


def describe_signature(run: RunConfig, identity: Mapping[str, str | int]) -> dict[str, object]:
    """Returns what the signature hashes, readable: compare two of these to see why two runs differ."""
    flat = effective(run.flat())
    train, options = _plain(run.train, "train.", flat), _plain(run.options, run.options.PREFIX, flat)
    return {
        "method": run.method,
        "version": run.options.version(),
        "train": {k: v for k, v in train.items() if k not in NAMED_BY_HASH},
        "options": {k: v for k, v in options.items() if f"method.{k}" not in identity},
        "inputs": dict(identity),
        "rules": SIGNED_RULES if run.options.SHARED is None else {},
        "protocol": PROTOCOL,
    }


def _plain(config: object, prefix: str, flat: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Returns the fields that are in `flat` as JSON values; a float field holds a float even where an int was given."""
    kind: Any = type(config)
    return fields.all_normal(kind, {name: flat[prefix + name] for name in fields.hints(kind) if prefix + name in flat})


def _backbone(name: str) -> tuple[str, str]:
    """Returns encoder and tokenizer hashes; a path is hashed as it is now, a name only once per process."""
    return backbone_identity(name) if Path(name).is_absolute() else _named_backbone(name)


_named_backbone = functools.cache(backbone_identity)
Stamps = tuple[Stamp | None, ...]


def _stamps(paths: DataPaths) -> Stamps:
    return tuple(stamp(path) if path.exists() else None for path in paths.inputs())


def corpus_columns(run: RunConfig, paths: DataPaths) -> tuple[str, ...]:
    """Returns the columns of a run's corpus; raises ConfigError where the corpus is not at hand."""
    return _corpus(run.train.corpus, paths, _stamps(paths))[1:]


@functools.cache
def _corpus(name: str, paths: DataPaths, _files: Stamps) -> tuple[str, ...]:
    """Returns the content hash of a corpus, followed by its columns."""
    source = open_source(name, paths)
    return (source.content_hash, *source.columns)


@functools.cache
def _dev(name: str, paths: DataPaths, _files: Stamps) -> tuple[str]:
    return (set_hash(name, paths) if paths.data_set(name) else load_pairs(name, paths).content_hash,)
