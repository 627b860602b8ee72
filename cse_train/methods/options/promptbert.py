"""Options of PromptBERT (Jiang et al., EMNLP 2022)."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cse_train.fields import Range

VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Config:
    """Defaults are the released ones for unsupervised BERT-base; `train.learning_rate` there is 1e-5."""

    template: str = 'This sentence of "[X]" means [MASK].'
    """View 1's and the test's template: [X] is the sentence, the vector of [MASK] its embedding."""
    second_template: str = 'This sentence : "[X]" means [MASK].'
    """View 2's; the same as `template` leaves dropout as the views' one difference."""
    denoising: Literal["training", "always", "none"] = "training"
    """When the vector of the template without its sentence is subtracted; released for training alone."""
    projector: Literal["train_only", "none"] = "train_only"
    """SimCSE's tanh layer on the vector, in training only, or nothing."""
    temperature: Annotated[float, Range(above=0)] = 0.05
    """Divides the cosines."""


def dropout_alone(config: Config) -> str | None:
    """As SimCSE's: both views stand in one template."""
    return "method.second_template=method.template" if config.second_template == config.template else None


def both_ends(config: Config) -> str | None:
    """As SimCSE's: a template stands between them."""
    return "method=promptbert"
