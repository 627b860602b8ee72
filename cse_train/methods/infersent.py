"""InferSent (Conneau et al., EMNLP 2017, arXiv 1705.02364): a BiLSTM over word vectors, trained on labelled NLI pairs.

Section 3.2 gives the encoder, h_t = (forward LSTM_t, backward LSTM_t) and u = max_t h_t of each unit; section 3.1 the
classifier of (u, v, |u - v|, u * v), as models.py has it. The word vectors stay as they are. Two differences from the
release: its first version lets the padding of a batch, zeros, take part in the maximum; and its learning rate falls by
the accuracy on NLI's dev set, here by the score of `train.dev`, once an evaluation.

Shape suffixes: B examples of this rank, N sequences, K words with a vector, D numbers of a vector, L the longest
sequence, U units of a direction.
"""

import itertools
import math

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from cse_train.encoder.backbone import Backbone, word_vectors
from cse_train.encoder.packing import Packed
from cse_train.losses import classification, product_features
from cse_train.methods import sbert
from cse_train.methods.base import Batch, Method, StepOutput
from cse_train.methods.options.infersent import Config as Config
from cse_train.text.file_corpora import NLI_LABELS


class InferSent(Method[Config]):
    """InferSent: word vectors, a BiLSTM and, in training, the classifier."""

    TRAINING_ONLY = ("classifier.",)

    @classmethod
    def make_collate(cls, config: Config, tokenizer, max_seq_length: int) -> sbert.Collate:
        """Returns SBERT's collate function: sentences of both columns in one pack, labels as indices in NLI_LABELS."""
        return sbert.SBERT.make_collate(sbert.Config(), tokenizer, max_seq_length)

    def __init__(self, config: Config, backbone: Backbone, training: bool = True) -> None:
        """Builds the modules; ConfigError for an encoder that is not word vectors."""
        super().__init__()
        self.config = config
        self.width = 2 * config.units
        self.encoder = word_vectors(backbone)
        self.lstm = nn.LSTM(self.encoder.width, config.units, bidirectional=True)
        sizes, after = (
            (4 * self.width, config.hidden, config.hidden),
            nn.Tanh if config.activation == "tanh" else nn.Identity,
        )
        inner = (layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), after()))
        self.classifier = nn.Sequential(*inner, nn.Linear(config.hidden, len(NLI_LABELS))) if training else None

    def forward(self, batch: Batch) -> StepOutput:
        assert self.classifier is not None, "built for test time alone"
        left_B, right_B = self.encode(batch.inputs["text"]).split(batch.examples)
        logits_BK, label_B = self.classifier(product_features(left_B, right_B)), batch.tensors["label_B"]
        loss = classification(logits_BK, label_B)
        accuracy = (logits_BK.argmax(1) == label_B).float().mean()
        return StepOutput(loss, {"loss": loss.detach(), "nli_accuracy": accuracy})

    def encode(self, packed: Packed) -> Tensor:
        """Embeds packed texts at test time: [N, 2U] in batch order."""
        words_KD, counts_N = self.encoder(packed)
        sentences = pack_sequence(words_KD.split(counts_N.tolist()), enforce_sorted=False)
        outside = -math.inf if self.config.pooling == "max" else 0.0
        states_NLU, _ = pad_packed_sequence(self.lstm(sentences)[0], batch_first=True, padding_value=outside)
        pooled_NU = states_NLU.amax(1) if self.config.pooling == "max" else states_NLU.sum(1) / counts_N[:, None]
        return torch.empty_like(pooled_NU).index_copy(0, packed.order_N, pooled_NU)
