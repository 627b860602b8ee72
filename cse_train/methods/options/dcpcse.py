"""Options of DCPCSE (Jiang and Wang, 2022; code PromCSE)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from cse_train.fields import Added, Range
from cse_train.methods.options import Pooler
from cse_train.plugins.options import Options
from cse_train.text.file_corpora import PAIR_COLUMNS


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Options of DCPCSE; defaults are the released ones for unsupervised BERT-base, with `train.learning_rate` 3e-2."""

    VERSION = 2
    ADDED: ClassVar = {"mlm_decoder": Added("tied", within="mlm_weight")}

    prompt_length: Annotated[int, Range(low=1)] = 16
    """Number of prompts in front of every layer."""
    position_shift: bool = True
    """True to count positions behind the prompts, as released; false to begin at 0."""
    prompt_dropout: bool = True
    """True to drop out prompts at the encoder's hidden rate, independently for each sentence and view."""
    pooler: Pooler = "cls_train_only"
    """Pooling: [CLS] with projector, in training only or without; mean; last position; mean of two layers."""
    projector: Literal["mlp", "batchnorm"] = "mlp"
    """Projector after [CLS]: SimCSE's tanh layer, or DiffCSE's with BatchNorm."""
    temperature: Annotated[float, Range(above=0)] = 0.05
    """Temperature by which the cosines are divided."""
    objective: Literal["unsupervised", "pairs", "triplets"] = "unsupervised"
    """Views: two dropout views of one sentence, or the sent0, sent1 (, hard_neg) columns of an NLI file."""
    hard_negative_weight: Annotated[float, Range(above=0)] = 1.0
    """Weight of an example's own hard negative in the contrastive loss."""
    mlm_weight: Annotated[float, Range(above=0)] | None = None
    """Weight of the masked-LM auxiliary loss at the first step (released for RoBERTa: 0.1); null for off."""
    mlm_probability: Annotated[float, Range(above=0, below=1)] = 0.15
    """Share of the tokens that the auxiliary masked-LM loss masks."""
    mlm_decoder: Literal["released", "tied"] = "released"
    """Decoder of the masked-LM loss: one of its own that starts as the word embeddings, or the word embeddings.

    BertForCL and RobertaForCL tie nothing under transformers 4.2.1 (they have no get_output_embeddings), and train
    lm_head.decoder from BertForPreTraining's (train.py:371-373) or the file's, both equal to the word embeddings.
    """
    mlm_decay: Annotated[float, Range(above=0, high=1)] = 0.95
    """Factor by which the auxiliary weight changes in 100 steps (released trainers.py); 1 for constant."""
    energy_margin: Annotated[float, Range(above=0)] | None = None
    """Margin of the energy-based hinge loss on triplets (PromCSE: 0.2); null for off."""
    energy_weight: Annotated[float, Range(above=0)] = 10.0
    """Weight of the energy-based hinge loss in the sum of losses."""

    def dropout_alone(self) -> str | None:
        """Returns the setting under which only dropout, also of prompts, makes the views differ; None otherwise."""
        return "method.objective=unsupervised" if self.objective == "unsupervised" else None

    def text_columns(self) -> tuple[str, ...]:
        """Returns the corpus's text columns that the objective reads."""
        return {"unsupervised": ("text",), "pairs": PAIR_COLUMNS[:2], "triplets": PAIR_COLUMNS}[self.objective]
