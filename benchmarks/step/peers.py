"""SimCSE's training step in the libraries that people use: the peers of our own step.

`simcse_in_trainer` is what SimCSE's released code does (its `cl_forward`, its collator and its Trainer subclass, which
trains as its parent does), written for today's transformers; `sentence_transformers_loop` is the other library's
trainer with MultipleNegativesRankingLoss on pairs of the same text. Both keep their libraries' defaults where SimCSE
sets nothing: a fused AdamW among them.
"""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.step.setting import LENGTH

TEMPERATURE = 0.05
RATE = 3e-5
Loop = Callable[[Callable[[], None]], object]


class SimCSEModel(nn.Module):
    """BERT, [CLS], the tanh layer, and cosines of the two dropout views."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        from transformers import BertModel

        self.bert = BertModel.from_pretrained(folder, add_pooling_layer=False)
        width = self.bert.config.hidden_size
        self.mlp = nn.Linear(width, width)
        nn.init.normal_(self.mlp.weight, 0.0, 0.02)
        nn.init.zeros_(self.mlp.bias)
        self.similarity = nn.CosineSimilarity(dim=-1)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> dict[str, Tensor]:
        rows, views, length = input_ids.shape
        flat = {"input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": token_type_ids}
        out = self.bert(**{name: tensor.view(-1, length) for name, tensor in flat.items()}, return_dict=True)
        embedded = torch.tanh(self.mlp(out.last_hidden_state[:, 0])).view(rows, views, -1)
        cosines = self.similarity(embedded[:, 0].unsqueeze(1), embedded[:, 1].unsqueeze(0)) / TEMPERATURE
        return {"loss": nn.functional.cross_entropy(cosines, torch.arange(rows, device=cosines.device))}


class PaddingCollator:
    """Collates both views of every sentence, padded to the longest of the batch."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def __call__(self, features: list[dict[str, list[list[int]]]]) -> dict[str, Tensor]:
        rows, views = len(features), len(features[0]["input_ids"])
        flat = [{name: feature[name][view] for name in feature} for feature in features for view in range(views)]
        batch = self.tokenizer.pad(flat, padding=True, return_tensors="pt")
        return {name: tensor.view(rows, views, -1) for name, tensor in batch.items()}


def tokenised(texts: Sequence[str], tokenizer: Any) -> Any:
    """A Dataset whose rows hold each sentence twice, as the released `prepare_features` makes it.

    A list of rows where the package datasets is absent.
    """
    encoded = tokenizer(list(texts), max_length=LENGTH, truncation=True)
    columns = {name: [[row, row] for row in rows] for name, rows in encoded.items()}
    if importlib.util.find_spec("datasets") is None:
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    from datasets import Dataset

    return Dataset.from_dict(columns)


def simcse_in_trainer(
    folder: Path, texts: Sequence[str], batch: int, output: Path, changes: Mapping[str, Any] | None = None
) -> Loop:
    """The loop of the released code in transformers' Trainer; `changes` are training arguments."""
    from transformers import AutoTokenizer, Trainer, TrainingArguments

    tokenizer = AutoTokenizer.from_pretrained(folder)
    data, model = tokenised(texts, tokenizer), SimCSEModel(folder)

    def loop(pause: Callable[[], None]) -> None:
        shared = shared_arguments(batch, output) | dict(changes or {})
        arguments = TrainingArguments(**shared, remove_unused_columns=False)
        collator = PaddingCollator(tokenizer)
        Trainer(model, arguments, collator, data, callbacks=[_pausing(pause)]).train()

    return loop


def sentence_transformers_model(folder: Path) -> Any:
    """Builds SimCSE's model, [CLS] through a tanh layer, of sentence-transformers' modules."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Dense, Pooling, Transformer

    words = Transformer(str(folder), max_seq_length=LENGTH)
    width = words.get_embedding_dimension()
    dense = Dense(width, width, activation_function=nn.Tanh())
    return SentenceTransformer(modules=[words, Pooling(width, "cls"), dense], device="cpu")


def sentence_transformers_loop(
    folder: Path, texts: Sequence[str], batch: int, output: Path, changes: Mapping[str, Any] | None = None
) -> Loop:
    """The loop of SentenceTransformerTrainer; `changes` are training arguments."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.losses import MultipleNegativesRankingLoss

    model = sentence_transformers_model(folder)
    data = Dataset.from_dict({"anchor": list(texts), "positive": list(texts)})

    def loop(pause: Callable[[], None]) -> None:
        shared = shared_arguments(batch, output) | dict(changes or {})
        arguments = SentenceTransformerTrainingArguments(**shared)
        loss = MultipleNegativesRankingLoss(model, scale=1 / TEMPERATURE)
        SentenceTransformerTrainer(model, arguments, data, loss=loss, callbacks=[_pausing(pause)]).train()

    return loop


def shared_arguments(batch: int, output: Path) -> dict[str, Any]:
    """Returns the trainer's arguments of SimCSE's recipe, with so many epochs that the loop never ends."""
    return {
        "output_dir": str(output),
        "per_device_train_batch_size": batch,
        "learning_rate": RATE,
        "num_train_epochs": 1000,
        "dataloader_drop_last": True,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
    }


def _pausing(pause: Callable[[], None]) -> Any:
    from transformers import TrainerCallback

    class Pausing(TrainerCallback):
        """Stops after each optimiser step."""

        def on_step_end(self, *_: Any, **__: Any) -> None:
            pause()

    return Pausing()
