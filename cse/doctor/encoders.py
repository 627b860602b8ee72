"""Checks the encoders of a space: they load, its methods can use them, and their vocabulary covers its texts."""

import itertools
import json
from collections.abc import Iterator, Sequence

import numpy as np

from cse.doctor.checks import Finding, Level
from cse_train.config import RunConfig
from cse_train.data_paths import DataPaths
from cse_train.encoder.automodel import AutoModelEncoder
from cse_train.encoder.backbone import Backbone, WordVectors, load_backbone
from cse_train.encoder.folders import locate
from cse_train.fields import ConfigError
from cse_train.text.corpora import open_source
from cse_train.text.tokens import tokenise
from cse_train.training.fit import check_fit
from search_spaces.cells import ResolvedSpace

TEXTS_READ = 2_000
"""Texts read from the beginning of a corpus."""
UNKNOWN_SHARE = 0.01
"""Share of unknown tokens above which a vocabulary counts as not covering a corpus."""


def describe_space(resolved: ResolvedSpace, paths: DataPaths) -> list[Finding]:
    """Describes every encoder of a space, and checks that the space's methods can use it as their cells ask."""
    runs = sorted((cell.run(0) for cell in resolved.cells()), key=lambda run: run.train.encoder)
    findings = []
    for name, group in itertools.groupby(runs, lambda run: run.train.encoder):
        group_runs = list(group)
        try:
            backbone = load_backbone(name)
        except ConfigError as error:
            findings += [Finding("stop", "encoder", line) for line in error.problems]
            continue
        findings += _describe(backbone, _read_texts(group_runs[0], paths), group_runs[0].train.max_seq_length)
        findings += _try_fit(group_runs)
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


def _read_texts(run: RunConfig, paths: DataPaths) -> list[str]:
    """Returns texts from the beginning of a run's corpus; none if it cannot be read, which another check reports."""
    try:
        return [row[0] for row in itertools.islice(open_source(run.train.corpus, paths).rows(), TEXTS_READ)]
    except ConfigError:
        return []


def _describe(backbone: Backbone, texts: Sequence[str], max_length: int) -> Iterator[Finding]:
    encoder, tokenizer, config = backbone.encoder, backbone.tokenizer, backbone.config
    if isinstance(encoder, WordVectors):
        yield Finding("fine", "encoder", f"{backbone.name}: vectors of {backbone.width} numbers for whole words")
        return
    weights = sum(parameter.numel() for parameter in encoder.parameters())
    path = "through transformers' model" if isinstance(encoder, AutoModelEncoder) else "in our packed encoder"
    size = f"{config.num_hidden_layers} layers of {backbone.width}, {weights:,} weights"
    yield Finding("fine", "encoder", f"{backbone.name}: a {config.model_type}, {size}, {path}")
    file = locate(backbone.name) / "modules.json"
    kinds = [str(each["type"]).rpartition(".")[2] for each in json.loads(file.read_text())] if file.is_file() else []
    if modules := [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]:
        line = f"modules: the folder has {', '.join(modules)} behind its pooling, which train.encoder leaves out"
        yield Finding("note", "encoder", f"{line}; cse eval scores the whole folder")
    if unused := backbone.prompts.unused(backbone.prompt, "train.prompt", backbone.name):
        yield Finding("note", "encoder", unused)
    if texts and tokenizer.unk_token_id is not None:
        ids = tokenise(texts, tokenizer, max_length)[0]
        unknown = int((ids == tokenizer.unk_token_id).sum())
        share = unknown / max(1, unknown + int((~np.isin(ids, tokenizer.all_special_ids)).sum()))
        if share > UNKNOWN_SHARE:
            line = f"vocabulary: {share:.2%} of the tokens of {len(texts)} texts are unknown to it"
            yield Finding("note", "encoder", f"{line}; choose an encoder that was trained on such texts")
