"""Options of DCPCSE (Jiang and Wang, 2022; code PromCSE)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from cse_train.fields import Added, Range
from cse_train.methods.options import Pooler
from cse_train.plugins.options import Options
from cse_train.text.corpora.files import PAIR_COLUMNS


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Defaults are the released ones for unsupervised BERT-base; `train.learning_rate` there is 3e-2."""

    VERSION = 2
    ADDED: ClassVar = {"mlm_decoder": Added("tied", within="mlm_weight")}

    prompt_length: Annotated[int, Range(low=1)] = 16
    """Prompts in front of every layer."""
    position_shift: bool = True
    """Let the first token stand behind the prompts' positions, as released, or at 0."""
    prompt_dropout: bool = True
    """Drop out prompts at the encoder's hidden rate, independently for each sentence and view."""
    pooler: Pooler = "cls_train_only"
    """[CLS] with projector, with it in training only, without; mean; mean of embedding + last, or layer 1 + last."""
    projector: Literal["mlp", "batchnorm"] = "mlp"
    """SimCSE's tanh layer, or DiffCSE's with BatchNorm."""
    temperature: Annotated[float, Range(above=0)] = 0.05
    """Divides the cosines."""
    objective: Literal["unsupervised", "pairs", "triplets"] = "unsupervised"
    """Two dropout views of one sentence, or the sent0, sent1 (, hard_neg) columns of an NLI file."""
    hard_negative_weight: Annotated[float, Range(above=0)] = 1.0
    """The weight of an example's own hard negative in the contrastive loss."""
    mlm_weight: Annotated[float, Range(above=0)] | None = None
    """Weight of the masked-LM auxiliary loss at the first step (released for RoBERTa: 0.1); null for off."""
    mlm_probability: Annotated[float, Range(above=0, below=1)] = 0.15
    """Share of the tokens that the auxiliary loss masks."""
    mlm_decoder: Literal["released", "tied"] = "released"
    """The auxiliary loss's decoder: one of its own that starts as the word embeddings, or the word embeddings.

    BertForCL and RobertaForCL tie nothing under transformers 4.2.1 (they have no get_output_embeddings), and train
    lm_head.decoder from BertForPreTraining's (train.py:371-373) or the file's, both equal to the word embeddings."""
    mlm_decay: Annotated[float, Range(above=0, high=1)] = 0.95
    """What the auxiliary weight is multiplied by in 100 steps (released trainers.py); 1 for constant."""
    energy_margin: Annotated[float, Range(above=0)] | None = None
    """Margin of the energy-based hinge loss on triplets (PromCSE: 0.2); null for off."""
    energy_weight: Annotated[float, Range(above=0)] = 10.0
    """Weight of the hinge loss."""

    def dropout_alone(self) -> str | None:
        """As SimCSE's; prompts drop out at the encoder's own rate."""
        return "method.objective=unsupervised" if self.objective == "unsupervised" else None

    def text_columns(self) -> tuple[str, ...]:
        """The text columns that these settings read."""
        return {"unsupervised": ("text",), "pairs": PAIR_COLUMNS[:2], "triplets": PAIR_COLUMNS}[self.objective]
