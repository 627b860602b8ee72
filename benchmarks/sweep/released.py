"""One run of DiffCSE's released recipe: its model in transformers' Trainer, its collator, and SentEval's evaluation.

The model is the authors' step of `benchmarks.methods.peers`; the generator stays in train mode, as theirs does. Each
evaluation encodes STS-B train, dev and test and SICK-R (`benchmarks.evaluation`), and the best model is saved.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.evaluation.released import senteval_way
from benchmarks.methods.peers import DiffCSEPeer
from benchmarks.step.peers import PaddingCollator, tokenised
from benchmarks.sweep.rows import Curve
from cse_train.backbone.backbone import load_backbone
from cse_train.config import RunConfig
from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import Pairs
from cse_train.training.loop import Session
from cse_train.training.optimiser import evaluation_steps, steps_in


class Released(DiffCSEPeer):
    """The authors' model with the signature that the Trainer wants."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor, masked_ids: Tensor) -> dict[str, Tensor]:
        """Of ids [B, 2, L]."""
        ids, mask, masked = (tensor.transpose(0, 1).flatten(0, 1) for tensor in (input_ids, attention_mask, masked_ids))
        return {"loss": self.loss(ids, mask, masked)}


class MaskingCollator(PaddingCollator):
    """Both views, padded, and their masked copies."""

    def __init__(self, tokenizer: Any, ratio: float) -> None:
        from transformers import DataCollatorForLanguageModeling

        super().__init__(tokenizer)
        self.masking = DataCollatorForLanguageModeling(tokenizer, mlm_probability=ratio)

    def __call__(self, features: list[dict[str, list[list[int]]]]) -> dict[str, Tensor]:
        batch = super().__call__(features)
        masked, _ = self.masking.torch_mask_tokens(batch["input_ids"].flatten(0, 1).clone())
        kept = ("input_ids", "attention_mask")
        return {name: batch[name] for name in kept} | {"masked_ids": masked.view_as(batch["input_ids"])}


def train(run: RunConfig, paths: DataPaths, folder: Path, texts: Sequence[str], sets: Sequence[Pairs]) -> Curve:
    """Train and evaluate the run in `folder`; the first of `sets` is the dev set. CPU seconds of this process.

    The starting weights are those of our own session of the same run, which costs this side nothing and stores no edit
    for the other.
    """
    from transformers import Trainer, TrainingArguments, set_seed

    live = dataclasses.replace(run, options=dataclasses.replace(run.options, edits="live"))
    session = Session.open(live, paths, folder)
    tokenizer, model = _tokenizer(run), Released(session, None)
    set_seed(run.train.seed)
    begun = time.process_time()
    evaluating = _Evaluating(model, tokenizer, sets, set(evaluation_steps(run.train)), folder)
    arguments = TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=run.train.batch_size,
        learning_rate=run.train.learning_rate,
        max_steps=steps_in(run.train),
        weight_decay=0.0,
        dataloader_drop_last=True,
        remove_unused_columns=False,
        seed=run.train.seed,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    collator = MaskingCollator(tokenizer, run.options.masking_ratio)
    data = tokenised(texts, tokenizer)
    Trainer(model, arguments, collator, data, callbacks=[_callback(evaluating)]).train()
    seconds = time.process_time() - begun
    return Curve("done", evaluating.scores, seconds - evaluating.seconds, evaluating.seconds)


class _Evaluating:
    """What the released trainer does every so many steps."""

    def __init__(self, model: Released, tokenizer: Any, sets: Sequence[Pairs], due: set[int], folder: Path) -> None:
        self.model, self.tokenizer, self.sets, self.due, self.folder = model, tokenizer, sets, due, folder
        self.scores: list[float] = []
        self.seconds = 0.0

    def __call__(self, step: int) -> None:
        if step not in self.due:
            return
        begun = time.process_time()
        self.model.eval()
        self.scores.append(senteval_way(self.model.bert, self.tokenizer, self.sets)[0])
        self.model.train()
        if self.scores[-1] == max(self.scores):
            torch.save(self.model.state_dict(), self.folder / "best.pt")
        self.seconds += time.process_time() - begun


def _callback(evaluate: Callable[[int], None]) -> Any:
    from transformers import TrainerCallback

    class AfterStep(TrainerCallback):
        """Tells each step's number."""

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            evaluate(state.global_step)

    return AfterStep()


def _tokenizer(run: RunConfig) -> Any:
    return load_backbone(run.train.encoder).tokenizer
