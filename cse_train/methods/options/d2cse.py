"""Options of D2CSE (Lee, 2023)."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cse_train.encoder.identity import generator_hash
from cse_train.fields import Range
from cse_train.methods.options import Pooler
from cse_train.plugins.options import Options
from cse_train.text.file_corpora import PAIR_COLUMNS


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Options of D2CSE; defaults are table 7's for unsupervised BERT-base, with `train.learning_rate` 0.021 there."""

    VERSION = 2
    """Version of the method's numbers for all frameworks but b, which has its own (`version`)."""

    framework: Literal["a", "b", "c", "d"] = "d"
    """Detector of replaced tokens (figure 3): a, the frozen encoder; b, a copy that trains; c or d, the prompted one.

    The detector is given the embedding in a, b and d.
    """
    cls_prompt: bool = False
    """True to train the word embedding at [CLS] too, starting from the encoder's own."""
    prompt_length: Annotated[int, Range(low=1)] = 16
    """Number of prompts in front of every layer."""
    position_shift: bool = True
    """True to count positions behind the prompts, as DCPCSE's released code; false to begin at 0."""
    prompt_dropout: bool = True
    """True to drop out prompts at the encoder's hidden rate, independently for each sentence and view."""
    pooler: Pooler = "cls_train_only"
    """Pooling: [CLS] with projector, in training only or without; mean; last position; mean of two layers."""
    projector: Literal["mlp", "batchnorm"] = "batchnorm"
    """Projector after [CLS]: DiffCSE's with BatchNorm over views and ranks together, or SimCSE's tanh layer."""
    temperature: Annotated[float, Range(above=0)] = 0.05
    """Temperature by which the cosines are divided."""
    objective: Literal["unsupervised", "triplets"] = "unsupervised"
    """Views: two dropout views of one sentence, or the sent0, sent1, hard_neg columns of an NLI file."""
    hard_negative_weight: Annotated[float, Range(above=0)] = 1.0
    """Weight of an example's own hard negative in the contrastive loss."""
    masking_ratio: Annotated[float, Range(above=0, below=1)] = 0.3
    """Share of the tokens that the generator was asked to fill."""
    lambda_weight: Annotated[float, Range(low=0)] = 0.005
    """Weight of the replaced-token loss in the sum of losses."""
    generator: str = "distilbert-base-uncased"
    """Masked LM that corrupts the corpus before training: a shipped encoder, a folder or a hub model."""
    corruption_seed: Annotated[int, Range(low=0)] = 0
    """Seed of the corruption, which is equal in every run and epoch."""
    corrupted_positions: Literal["masked", "all"] = "masked"
    """Positions that are replaced: the masked ones (paper), or all, by the generator's tokens (DiffCSE's code)."""
    reduction: Literal["mean_all", "mean_attended", "sum"] = "mean_all"
    """Reduction of the replaced-token loss: DiffCSE's mean with padding, mean without, or the paper's sum."""

    def version(self) -> int:
        """Returns the version of a run's numbers: 3 for framework b, whose detector does not train [PAD]; else 2."""
        return 3 if self.framework == "b" else self.VERSION

    def inputs(self) -> dict[str, str]:
        """Returns the content hash of the generator, an input of every run."""
        return {"generator": generator_hash(self.generator)}

    def dropout_alone(self) -> str | None:
        """Returns the setting under which only dropout, also of prompts, makes the views differ; None otherwise."""
        return "method.objective=unsupervised" if self.objective == "unsupervised" else None

    def first_token(self) -> str | None:
        """Returns the setting, beside a pooler, that reads or writes position 0; None where there is none."""
        if self.cls_prompt:
            return "method.cls_prompt=True"
        return None if self.framework == "c" else f"method.framework={self.framework}"

    def text_columns(self) -> tuple[str, ...]:
        """Returns the corpus's text columns that the objective reads."""
        return PAIR_COLUMNS if self.objective == "triplets" else ("text",)
