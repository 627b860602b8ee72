"""Masked-LM pretraining of the miniature encoders that ship in `weights/`.

Two kinds of step: whole sentences as they will be met in training, and runs of consecutive sentences 512 tokens long so
that every position embedding is trained. The learning rate is constant after warm-up and falls to zero over the last
part. A run that is stopped resumes from its state file, bit for bit.
"""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch

from cse_train.backbone.identity import load_tokenizer
from cse_train.evaluate.pairs import Pairs
from cse_train.fields import ConfigError, Json
from cse_train.files import replace_file
from cse_train.pretrain.config import PretrainConfig as PretrainConfig
from cse_train.pretrain.corpus import Corpus, read_lines, text_hash, tokenise
from cse_train.pretrain.evaluation import dev_scores, report_held_out
from cse_train.pretrain.folder import make_card, write_weights
from cse_train.pretrain.run import Run
from cse_train.pretrain.words import read_word_vectors, require_vectors, start_from_vectors, write_tokenizer
from cse_train.reading import reading
from cse_train.soundness import check_archive
from cse_train.text.tokens import tokenizer_hash

Progress = Callable[[Json], None]


def pretrain(
    config: PretrainConfig,
    text: Path,
    out: Path,
    *,
    dev: Pairs | None = None,
    progress: Progress = lambda point: None,
    every: int = 2_000_000,
) -> Path:
    """Pretrains an encoder, and writes a folder that `load_backbone` reads; returns the folder.

    `out` holds state.pt, written every `every` tokens, from which the same call resumes. With `dev`, the untrained
    poolers are scored there too, without touching the run's random state. Raises ConfigError when the state belongs to
    another recipe or cannot be read, and Diverged before a model is written.
    """
    require_vectors(config)
    state_file = out / "state.pt"
    # Before anything is written: a folder of another recipe stays as it is.
    state = _read_state(state_file, config) if state_file.exists() else None
    lines = list(read_lines(text))
    vectors = read_word_vectors(config.embeddings) if config.embeddings else {}
    write_tokenizer(config, lines, vectors, out)
    tokenizer = load_tokenizer(out)
    corpus = tokenise(lines, tokenizer)
    _check_corpus(corpus, config)
    words = start_from_vectors(tokenizer.get_vocab(), vectors, config.embedding_std) if vectors else None
    run = Run.start(config, corpus, words)
    if state is not None:
        run.load(state)
    while run.tokens < config.tokens:
        run.train_until(min(config.tokens, (run.tokens // every + 1) * every))
        if dev is not None:
            run.log[-1]["sts_dev"] = dev_scores(run.model.encoder, tokenizer, dev)
        replace_file(state_file, lambda path: torch.save(run.state(), path))
        progress(run.log[-1])
    run.model.multiply_words()
    held_out = report_held_out(run.model, corpus, config)
    hashes = {"text_hash": text_hash(text), "tokenizer_hash": tokenizer_hash(tokenizer)}
    card = make_card(run, held_out, text=text.name, **hashes)
    return write_weights(run.model, out, card, tokenizer)


def _read_state(path: Path, config: PretrainConfig) -> Json:
    """Reads the state from which a run resumes; ConfigError if any setting but the total of tokens has changed."""
    with reading("unreadable state", path, "delete it to begin again"):
        check_archive(path)
        state = dict(torch.load(path, map_location="cpu", weights_only=True))
    settings = asdict(config)
    stored = asdict(PretrainConfig()) | state["config"]
    changed = [name for name in settings if name != "tokens" and stored[name] != settings[name]]
    if changed:
        pairs = ", ".join(f"{name}={settings[name]} (was {stored[name]})" for name in changed)
        raise ConfigError([f"another recipe: {pairs}; {path} was begun differently, choose another folder"])
    return state


def _check_corpus(corpus: Corpus, config: PretrainConfig) -> None:
    trained = len(corpus.starts) - config.held_out
    if trained < config.batch_sentences or corpus.starts[trained] <= config.max_positions:
        line = f"too little text: held_out={config.held_out} of {len(corpus.starts)} sentences"
        raise ConfigError([f"{line}; give more text, or lower held_out, batch_sentences or max_positions"])
