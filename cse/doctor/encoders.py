"""Describes how an encoder will be read: special tokens, positions, dropout, prompts, precision, and code path."""

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from cse.doctor.checks import Finding, Level
from cse_train.config import RunConfig
from cse_train.data_paths import DataPaths
from cse_train.encoder.automodel import AutoModelEncoder
from cse_train.encoder.backbone import Backbone, WordVectors, dropout_fields, load_backbone
from cse_train.encoder.folders import POOLING_FILES, locate
from cse_train.encoder.identity import padding_of
from cse_train.encoder.packing import pack
from cse_train.encoder.pooling import POOLERS
from cse_train.encoder.reading_order import first_token_problem, has_noise, others_than_first
from cse_train.encoder.weight_files import read_precisions
from cse_train.fields import ConfigError
from cse_train.text.corpora import open_source
from cse_train.text.tokens import tokenise
from cse_train.training.fit import check_fit
from search_spaces.cells import ResolvedSpace

TEXTS_READ = 2_000
"""Texts read from the beginning of a corpus."""
UNKNOWN_SHARE = 0.01
"""Share of unknown tokens above which a vocabulary counts as not covering a corpus."""
TEXT_TOKENS = 32
"""Tokens of a text, where no run sets a length. BATCH_TEXTS is the number of texts in a batch."""
BATCH_TEXTS = 64

Line = tuple[Level, str]


def describe_encoder(
    name: str, texts: Sequence[str] = (), batch_size: int = BATCH_TEXTS, max_length: int = TEXT_TOKENS
) -> list[Finding]:
    """Describes an encoder (folder, shipped name or hub model) as findings; a `stop` finding for each mistake in it.

    `texts`: sample of a corpus; with it, coverage by the vocabulary and padding are reported too.
    """
    try:
        backbone = load_backbone(name)
    except ConfigError as error:
        return [Finding("stop", "encoder", line) for line in error.problems]
    if isinstance(backbone.encoder, WordVectors):
        return [Finding("fine", "encoder", f"{name}: vectors of {backbone.width} numbers for whole words")]
    lines = [*_describe(backbone, locate(name))]
    if texts:
        lines += _cover(backbone, texts, batch_size, max_length)
    return [Finding(level, "encoder", line) for level, line in lines]


def describe_space(resolved: ResolvedSpace, paths: DataPaths) -> list[Finding]:
    """Describes every encoder of a space, and checks that the space's methods can use it as their cells ask."""
    runs = sorted((cell.run(0) for cell in resolved.cells()), key=lambda run: run.train.encoder)
    findings = []
    for name, group in itertools.groupby(runs, lambda run: run.train.encoder):
        group_runs = list(group)
        train = group_runs[0].train
        answers = describe_encoder(name, texts_of(train.corpus, paths), train.batch_size, train.max_seq_length)
        is_stopped = any(finding.level == "stop" for finding in answers)
        findings += answers if is_stopped else [*answers, *_try_fit(group_runs)]
    return findings


def _try_fit(runs: Sequence[RunConfig]) -> list[Finding]:
    """Checks that runs' methods can use the encoder: a `note` finding for each refusal, a `stop` if all are refused."""
    variants = {(run.method, run.options, run.train.dropout, run.train.prompt): run for run in runs}
    refusals = []
    for run in variants.values():
        try:
            check_fit(run, load_backbone(run.train.encoder, run.train.dropout, run.train.prompt))
        except ConfigError as error:
            refusals.append(error.problems)
    level: Level = "stop" if len(refusals) == len(variants) else "note"
    return [Finding(level, "encoder", line) for line in dict.fromkeys(itertools.chain(*refusals))]


def texts_of(corpus: str, paths: DataPaths) -> list[str]:
    """Returns texts from the beginning of a corpus; none if it cannot be read, which another check reports."""
    try:
        rows = open_source(corpus, paths).rows()
        return [row[0] for row in itertools.islice(rows, TEXTS_READ)]
    except ConfigError:
        return []


def _describe(backbone: Backbone, folder: Path) -> Iterator[Line]:
    encoder, tokenizer, config = backbone.encoder, backbone.tokenizer, backbone.config
    assert not isinstance(encoder, WordVectors)
    weights = sum(parameter.numel() for parameter in encoder.parameters())
    size = f"{config.num_hidden_layers} layers of {backbone.width}, {weights:,} weights"
    yield "fine", f"{backbone.name}: a {config.model_type}, {size}"
    if isinstance(encoder, AutoModelEncoder):
        cost = "each view is a pass of its own, and padding inside a length group is computed"
        loader = encoder.loads_by or f"the encoder inside {type(encoder.model).__name__.removesuffix('Encoder')}"
        alone = "; each length is a batch of its own, as padding would reach its texts" if encoder.mixes_padding else ""
        yield "fine", f"path: transformers' {loader}; {cost}{alone}"
    else:
        cost = "views share the embeddings, and the last layer is computed where it is read"
        yield "fine", f"path: our packed encoder; {cost}"
    files = " and ".join(read_precisions(folder))
    yield "fine", f"precision: {files} in the files, fp32 in memory; train.precision is that of the products"
    problem = first_token_problem(encoder, tokenizer)
    pooling = _folder_pooling(folder)
    pooling_note = f"; its folder pools by {pooling}" if pooling else ""
    if problem is None:
        yield "fine", f"pooler: each of {', '.join(POOLERS)}, as position 0 holds a token of every text{pooling_note}"
    else:
        choices = others_than_first(POOLERS)
        yield "note", f"pooler: position 0 is no text's in an encoder {problem}{pooling_note}; choose {choices}"
    file = folder / "modules.json"
    kinds = [str(each["type"]).rpartition(".")[2] for each in json.loads(file.read_text())] if file.is_file() else []
    if modules := [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]:
        line = f"modules: the folder has {', '.join(modules)} behind its pooling, which train.encoder leaves out"
        yield "note", f"{line}; cse eval scores the whole folder"
    ends = tokenizer.convert_ids_to_tokens(tokenizer("")["input_ids"])
    padding = tokenizer.pad_token
    marks = f"around a text {' '.join(ends) or 'nothing'}; padding {padding}, mask {tokenizer.mask_token}"
    yield "fine", f"special tokens: {marks}; {len(tokenizer)} pieces"
    if padding is None or padding == padding_of(tokenizer):
        substitute = f"{padding} stands for it in memory" if padding else "id 0 stands there, and no export can be made"
        yield "note", f"no token for padding alone: {substitute}; no text sees it"
    if tokenizer.mask_token_id is None:
        yield "note", "no mask token: promptbert, mirrorbert, and what masks words refuse it; choose other methods"
    room = encoder.positions
    front = f", behind {encoder.position_offset} of padding" if encoder.position_offset else ""
    yield "fine", f"positions: {room or 'any number of'} tokens of a text{front}"
    rates = ", ".join(f"{field}={getattr(config, field):g}" for field in dropout_fields(config)) or "none"
    if has_noise(encoder, tokenizer):
        yield "fine", f"dropout: {rates}; train.dropout sets all of them"
    else:
        advice = "set train.dropout=0.1" if rates != "none" else "choose views that other edits tell apart"
        yield "note", f"dropout: {rates}, so that two views of a text are equal; {advice}"
    names = ", ".join(f"{name} ({text!r})" for name, text in backbone.prompts.texts.items() if text)
    if unused := backbone.prompts.unused(backbone.prompt, "train.prompt", backbone.name):
        yield "note", unused
    yield "fine", f"prompts: {names or 'none'}; in use {backbone.prompt!r}" if names else "prompts: none"


def _folder_pooling(folder: Path) -> str:
    """Returns the pooling modes of a sentence-transformers folder, by that library's names."""
    modes = []
    for file in sorted(folder.glob(POOLING_FILES)):
        content = json.loads(file.read_text(encoding="utf8"))
        mode = [str(content["pooling_mode"])] if "pooling_mode" in content else []
        modes += mode or [key.removeprefix("pooling_mode_") for key, on in content.items() if on is True]
    return ", ".join(mode for mode in modes if mode != "include_prompt")


def _cover(backbone: Backbone, texts: Sequence[str], batch_size: int, max_length: int) -> Iterator[Line]:
    """Yields lines on how well the vocabulary covers texts, and how much of a batch of them is padding."""
    tokenizer = backbone.tokenizer
    flat, lengths, starts = tokenise(texts, tokenizer, max_length)
    is_own = ~np.isin(flat, tokenizer.all_special_ids)
    unknown = float((flat == tokenizer.unk_token_id).sum()) if tokenizer.unk_token_id is not None else 0.0
    share = unknown / max(1.0, is_own.sum() + unknown)
    words = max(1, int(starts[is_own].sum()))
    line = (
        f"vocabulary: {share:.2%} of the tokens of {len(texts)} texts unknown, {is_own.sum() / words:.2f} pieces a word"
    )
    pieces = len(np.unique(flat))
    line = f"{line}, {pieces} of {len(tokenizer)} pieces in use"
    if share > UNKNOWN_SHARE:
        yield "note", f"{line}; choose an encoder that was trained on such texts"
    else:
        yield "fine", line
    first = slice(0, batch_size)
    packed = pack(flat.astype(np.int64), (np.cumsum(lengths) - lengths)[first], lengths[first])
    padding = 1 - int(packed.lengths_N.sum()) / len(packed.ids_T)
    yield "fine", f"padding: {padding:.1%} of a batch of {packed.rows}, at {max_length} tokens a text at most"
