"""Options of D2CSE (Lee, 2023)."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cse_train.fields import Range
from cse_train.generator.identity import generator_hash
from cse_train.methods.options import Pooler
from cse_train.plugins.options import Options
from cse_train.text.corpora.files import PAIR_COLUMNS


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Defaults are table 7's for unsupervised BERT-base; `train.learning_rate` there is 0.021."""

    VERSION = 2
    """Of all but framework b (`version`)."""

    framework: Literal["a", "b", "c", "d"] = "d"
    """Figure 3. The detector is a: the bare frozen encoder; b: a copy that trains; c, d: the prompted encoder itself.

    It is given the embedding in a, b and d."""
    cls_prompt: bool = False
    """Train the word embedding at [CLS] too, from the encoder's own."""
    prompt_length: Annotated[int, Range(low=1)] = 16
    """Prompts in front of every layer."""
    position_shift: bool = True
    """Let the first token stand behind the prompts' positions, as DCPCSE's released code, or at 0."""
    prompt_dropout: bool = True
    """Drop out prompts at the encoder's hidden rate, independently for each sentence and view."""
    pooler: Pooler = "cls_train_only"
    """[CLS] with projector, with it in training only, without; mean; mean of embedding + last, or layer 1 + last."""
    projector: Literal["mlp", "batchnorm"] = "batchnorm"
    """DiffCSE's with BatchNorm over views and ranks together, or SimCSE's tanh layer."""
    temperature: Annotated[float, Range(above=0)] = 0.05
    """Divides the cosines."""
    objective: Literal["unsupervised", "triplets"] = "unsupervised"
    """Two dropout views of one sentence, or the sent0, sent1, hard_neg columns of an NLI file."""
    hard_negative_weight: Annotated[float, Range(above=0)] = 1.0
    """The weight of an example's own hard negative in the contrastive loss."""
    masking_ratio: Annotated[float, Range(above=0, below=1)] = 0.3
    """Share of the tokens that the generator was asked to fill."""
    lambda_weight: Annotated[float, Range(low=0)] = 0.005
    """Weight of the replaced-token loss."""
    generator: str = "distilbert-base-uncased"
    """The masked LM that corrupts the corpus before training: a shipped encoder, a folder or a hub model."""
    corruption_seed: Annotated[int, Range(low=0)] = 0
    """Seed of the corruption, which is the same in every run and epoch."""
    corrupted_positions: Literal["masked", "all"] = "masked"
    """Replace the masked tokens, as the paper says, or take the generator's token everywhere, as DiffCSE's code."""
    reduction: Literal["mean_all", "mean_attended", "sum"] = "mean_all"
    """Of the replaced-token loss: DiffCSE's mean with padding, mean without, or the paper's sum."""

    def version(self) -> int:
        """3 where the detector trains, since it does not train [PAD]."""
        return 3 if self.framework == "b" else self.VERSION

    def inputs(self) -> dict[str, str]:
        """The generator's content hash."""
        return {"generator": generator_hash(self.generator)}

    def dropout_alone(self) -> str | None:
        """As SimCSE's; prompts drop out at the encoder's own rate."""
        return "method.objective=unsupervised" if self.objective == "unsupervised" else None

    def first_token(self) -> str | None:
        """The setting that reads or writes position 0, beside a pooler."""
        if self.cls_prompt:
            return "method.cls_prompt=True"
        return None if self.framework == "c" else f"method.framework={self.framework}"

    def text_columns(self) -> tuple[str, ...]:
        """The text columns that these settings read."""
        return PAIR_COLUMNS if self.objective == "triplets" else ("text",)
