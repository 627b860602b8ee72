"""Masked-LM pretraining of the miniature encoders that ship in `weights/`.

Two kinds of step: whole sentences as they will be met in training, and runs of consecutive sentences 512 tokens
long so that every position embedding is trained. The learning rate is constant after warm-up and falls to zero over
the last part. A run that is stopped goes on from its state file, bit for bit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from cse_train.backbone.folders import shipped_folder
from cse_train.backbone.identity import load_tokenizer
from cse_train.checkpoint import check_archive
from cse_train.evaluate.pairs import Pairs
from cse_train.fields import ConfigError
from cse_train.files import replace_file
from cse_train.pretrain.config import PretrainConfig, bert_config
from cse_train.pretrain.corpus import Corpus, read_corpus, read_lines, text_hash, tokenised
from cse_train.pretrain.evaluation import dev_scores, held_out_report
from cse_train.pretrain.folder import make_card, write_weights
from cse_train.pretrain.run import MaskedLM, Run
from cse_train.text.tokens import tokenizer_hash

Progress = Callable[[dict[str, Any]], None]


def shipped_tokenizer() -> PreTrainedTokenizerBase:
    """The tokenizer that all shipped encoders share."""
    return load_tokenizer(shipped_folder() / "tokenizer")


def pretrain(
    config: PretrainConfig,
    text: Path,
    out: Path,
    *,
    dev: Pairs | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    progress: Progress = lambda point: None,
    every: int = 2_000_000,
) -> Path:
    """Pretrain and leave a folder that `load_backbone` reads; returns it.

    `out` holds state.pt, written every `every` tokens, from which the same call goes on. With `dev`, the untrained
    poolers are scored there too, without touching the run's random state. `tokenizer` None means the shipped one.
    Raises ConfigError when the state belongs to another recipe.
    """
    tokenizer = tokenizer or shipped_tokenizer()
    corpus = read_corpus(text, tokenizer)
    _check_corpus(corpus, config)
    run = Run.start(config, corpus)
    state_file = out / "state.pt"
    if state_file.exists():
        state = _read_state(state_file)
        _check_recipe(state.get("config"), config, state_file)
        run.load(state)
    while run.tokens < config.tokens:
        run.train_until(min(config.tokens, (run.tokens // every + 1) * every))
        if dev is not None:
            run.log[-1]["sts_dev"] = dev_scores(run.model.encoder, tokenizer, dev)
        replace_file(state_file, lambda path: torch.save(run.state(), path))
        progress(run.log[-1])
    return finish(state_file, out, text, config=config, tokenizer=tokenizer, corpus=corpus)


def finish(
    state_file: Path,
    to: Path,
    text: Path,
    *,
    config: PretrainConfig | None = None,
    dev_curve: Sequence[Mapping[str, Any]] = (),
    tokenizer: PreTrainedTokenizerBase | None = None,
    corpus: Corpus | None = None,
    shared_tokenizer: bool = False,
) -> Path:
    """Turn a run's state into a folder with weights, card and README. Raises ConfigError for an unreadable state.

    `config` None reads the recipe from the state. `dev_curve` adds {"tokens", pooler: score} points to those that the
    run noted itself. `shared_tokenizer` leaves the tokenizer out, as in the shipped folders.
    """
    state = _read_state(state_file)
    config = config or PretrainConfig(**state["config"])
    tokenizer = tokenizer or shipped_tokenizer()
    corpus = corpus or tokenised(list(read_lines(text))[-config.held_out :], tokenizer)
    bert = bert_config(config, len(tokenizer))
    model = MaskedLM(bert, torch.Generator())
    model.load_state_dict(state["model"])
    noted = [{"tokens": point["tokens"], **point["sts_dev"]} for point in state["log"] if "sts_dev" in point]
    card = make_card(
        state,
        config,
        held_out=held_out_report(model, corpus, config),
        text_hash=text_hash(text),
        tokenizer_hash=tokenizer_hash(tokenizer),
        dev_curve=[*noted, *dev_curve],
    )
    return write_weights(state["model"], bert, to, card, None if shared_tokenizer else tokenizer)


def _read_state(path: Path) -> dict[str, Any]:
    try:
        check_archive(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ConfigError([f"unreadable state: {path}, {type(error).__name__}; delete it to begin again"]) from error


def _check_recipe(stored: Mapping[str, Any] | None, config: PretrainConfig, path: Path) -> None:
    """A run may go on with another total; nothing else may change."""
    wanted = asdict(config)
    changed = [name for name in wanted if stored and name != "tokens" and stored[name] != wanted[name]]
    if changed:
        pairs = ", ".join(f"{name}={wanted[name]} (was {stored[name]})" for name in changed if stored)
        raise ConfigError([f"another recipe: {pairs}; {path} was begun differently, choose another folder"])


def _check_corpus(corpus: Corpus, config: PretrainConfig) -> None:
    trained = len(corpus.starts) - config.held_out
    if trained < config.batch_sentences or corpus.starts[trained] <= config.max_positions:
        line = f"too little text: held_out={config.held_out} of {len(corpus.starts)} sentences"
        raise ConfigError([f"{line}; give more text, or lower held_out, batch_sentences or max_positions"])
