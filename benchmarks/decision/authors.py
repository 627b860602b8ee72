"""A run as the authors' code makes it: their step on padded batches in transformers, and SentEval's evaluation.

Augmentation, masking and the order of the corpus come from our batches and cost this side what they cost ours, which is
less than theirs; its loop is plain PyTorch, which is less than transformers' Trainer.
"""

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.evaluation.released import senteval_way
from benchmarks.methods.peers import DiffCSEPeer, ESimCSEPeer, bert_of, padded, unpacked
from benchmarks.sweep.rows import Curve
from cse_train.backbone.backbone import load_backbone
from cse_train.config import RunConfig
from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import Pairs
from cse_train.losses.info_nce import info_nce
from cse_train.methods.base import Batch
from cse_train.training.loop import Session
from cse_train.training.optimiser import evaluation_steps, steps_in


class SimCSEPeer(nn.Module):
    """Every sentence twice in one padded pass; with fixed dropout once, as its own positive."""

    def __init__(self, session: Session, dropout: float | None) -> None:
        super().__init__()
        ours: Any = session.model
        self.bert = bert_of(session, dropout)
        self.projector = copy.deepcopy(ours.pooler.projector)
        self.config = ours.config

    def forward(self, batch: Batch) -> Tensor:
        ids, mask = padded(unpacked(batch.inputs["text"]))
        copies = 1 if self.config.fixed_dropout else 2
        hidden = self.bert(ids.repeat(copies, 1), mask.repeat(copies, 1)).last_hidden_state[:, 0]
        views = self.projector(hidden).split(len(ids))
        return info_nce(views[0], views[-1], temperature=self.config.temperature)


PEERS = {"simcse": SimCSEPeer, "esimcse": ESimCSEPeer, "diffcse": DiffCSEPeer}


def train(
    run: RunConfig,
    paths: DataPaths,
    folder: Path,
    sets: Sequence[Pairs],
    report: Callable[[float, float], None] = lambda score, evaluation_s: None,
) -> Curve:
    """Train and evaluate one run; the first of `sets` is the dev set. CPU seconds of this process.

    `report` gets each dev score, and the CPU seconds of all evaluations so far. Starting weights are those of our
    session of the run. The best model is saved, as theirs is.
    """
    if run.method == "diffcse":
        run = replace(run, options=replace(run.options, edits="live"))
    session = Session.open(run, paths, folder)
    model = PEERS[run.method](session, run.train.dropout)
    tokenizer = load_backbone(run.train.encoder).tokenizer
    torch.manual_seed(run.train.seed)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=run.train.learning_rate, weight_decay=run.train.weight_decay)
    last, due = steps_in(run.train), set(evaluation_steps(run.train))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 - step / last)
    scores: list[float] = []
    evaluation_s, begun = 0.0, time.process_time()
    for step in range(1, last + 1):
        model(session.batches[step - 1]).backward()
        torch.nn.utils.clip_grad_norm_(trained, run.train.max_grad_norm)
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
        if step in due:
            before = time.process_time()
            model.eval()
            scores.append(senteval_way(model.bert, tokenizer, sets)[0])
            model.train()
            if scores[-1] == max(scores):
                torch.save(model.state_dict(), folder / "best.pt")
            evaluation_s += time.process_time() - before
            report(scores[-1], evaluation_s)
    return Curve("done", scores, time.process_time() - begun - evaluation_s, evaluation_s)
