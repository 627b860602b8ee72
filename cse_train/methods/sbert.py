"""SBERT (Reimers and Gurevych, EMNLP 2019): one encoder for both sentences, trained on labelled NLI pairs or triplets.

Section 3 gives the objectives: softmax(W_t (u, v, |u - v|)) with cross-entropy, and max(|a - p| - |a - n| + 1, 0).
W_t has a bias, as in the released code. Shape suffixes: B examples of this rank, H width, N sequences, K labels.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from cse_train.encoder.backbone import Backbone
from cse_train.encoder.packing import pack_lists
from cse_train.encoder.pooling import SentencePooler
from cse_train.losses import classification, pair_features, triplet, view_statistics
from cse_train.methods.base import Batch, Method, Share, StepOutput
from cse_train.methods.options.sbert import Config as Config
from cse_train.text.file_corpora import NLI_LABELS


@dataclass(frozen=True)
class Collate:
    """Collates corpus rows to "text", column after column, and for classification "label_B", indices in NLI_LABELS."""

    names: tuple[str, ...]
    """Corpus columns that hold sentences."""
    places: dict[tuple[int, ...], int]
    """Ids of a label in the store -> its index in NLI_LABELS; empty for triplets."""
    pad_id: int

    def __call__(self, share: Share) -> Batch:
        sentences = [share.store.column(name).row(i) for name in self.names for i in share.rows]
        tensors = {}
        if self.places:
            labels = share.store.column("label")
            tensors["label_B"] = torch.tensor([self.places[tuple(labels.row(i).tolist())] for i in share.rows])
        return Batch({"text": pack_lists(sentences, pad_id=self.pad_id)}, len(share.rows), tensors)


class SBERT(Method[Config]):
    """SBERT: an encoder and its pooler; in training on labels also the classifier."""

    TRAINING_ONLY = ("classifier.",)

    @classmethod
    def corpus_alone(cls, config: Config) -> bool:
        return True

    @classmethod
    def make_collate(cls, config: Config, tokenizer: Any, max_seq_length: int) -> Collate:
        """Returns the collate function of a configuration; a label is a text of the store, truncated as every other."""
        if config.objective == "triplets":
            return Collate(cls.columns(config), {}, tokenizer.pad_token_id)
        ids = tokenizer(list(NLI_LABELS), truncation=True, max_length=max_seq_length)["input_ids"]
        places = {tuple(row): place for place, row in enumerate(ids)}
        assert len(places) == len(NLI_LABELS), places
        return Collate(cls.columns(config)[:2], places, tokenizer.pad_token_id)

    def __init__(self, config: Config, backbone: Backbone, training: bool = True) -> None:
        super().__init__()
        self.config = config
        self.encoder = backbone.encoder
        self.pooler = SentencePooler(config.pooler, backbone.width)
        labelled = training and config.objective == "classification"
        self.classifier = nn.Linear(3 * backbone.width, len(NLI_LABELS)) if labelled else None
        if self.classifier is not None:
            self.classifier.requires_grad_(config.classifier == "trained")

    def forward(self, batch: Batch) -> StepOutput:
        vectors = self.encode(batch.inputs["text"]).split(batch.examples)
        if self.classifier is None:
            loss = triplet(vectors[0], vectors[1], vectors[2], self.config.margin)
            return StepOutput(loss, {"loss": loss.detach(), **view_statistics(vectors[0], vectors[1])})
        logits_BK, label_B = self.classifier(pair_features(vectors[0], vectors[1])), batch.tensors["label_B"]
        loss = classification(logits_BK, label_B)
        accuracy = (logits_BK.argmax(1) == label_B).float().mean()
        return StepOutput(loss, {"loss": loss.detach(), "nli_accuracy": accuracy})
