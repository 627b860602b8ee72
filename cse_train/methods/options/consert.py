"""Options of ConSERT (Yan et al., ACL 2021)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from cse_train.fields import Added, Range
from cse_train.plugins.options import Options


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Options of ConSERT; defaults are the paper's without supervision, where `train.dropout` is 0.

    Adversarial noise, which needs labels, is not offered.
    """

    VERSION = 2
    ADDED: ClassVar = {"train_layers": Added(None), "loss_factor": Added(1.0)}

    augmentation_1: Literal["none", "shuffle", "token_cutoff", "feature_cutoff", "dropout"] = "feature_cutoff"
    """Augmentation of view 1 at the embedding layer (section 3.2): permuted positions, or tokens, features or single
    numbers set to zero."""
    augmentation_2: Literal["none", "shuffle", "token_cutoff", "feature_cutoff", "dropout"] = "shuffle"
    """Augmentation of view 2 at the embedding layer (section 3.2): permuted positions, or tokens, features or single
    numbers set to zero."""
    token_cutoff_rate: Annotated[float, Range(above=0, below=1)] = 0.15
    """Share of a text's tokens, special ones included, that token_cutoff sets to zero."""
    feature_cutoff_rate: Annotated[float, Range(above=0, below=1)] = 0.2
    """Share of the features that feature_cutoff sets to zero in all tokens of a text."""
    dropout_rate: Annotated[float, Range(above=0, below=1)] = 0.2
    """Probability with which the augmentation dropout sets a number to zero; the other numbers are not scaled."""
    temperature: Annotated[float, Range(above=0)] = 0.1
    """Temperature by which the cosines are divided."""
    loss_factor: Annotated[float, Range(above=0)] = 1.0
    """Factor of the loss, before gradients are clipped and meet Adam's epsilon: 0.3 as released, none in the paper."""
    layers: Annotated[int, Range(low=1)] = 2
    """Number of last layers whose token vectors are averaged at test time (released eval.py, last2avg)."""
    train_layers: Annotated[int, Range(low=1)] | None = 1
    """Number of last layers averaged in training and for the dev score that picks a checkpoint: the last alone, as
    released (main.py:189-192, its pooling); null for as many as `layers`."""

    def version(self) -> int:
        """Returns the version of a run's numbers: 2 where training averages other layers than the test, else 1."""
        return 1 if self.train_layers in (None, self.layers) else self.VERSION

    def dropout_alone(self) -> str | None:
        """Returns the setting under which only dropout makes the views differ: neither is augmented; None otherwise."""
        alone = self.augmentation_1 == self.augmentation_2 == "none"
        return "method.augmentation_1=none, method.augmentation_2=none" if alone else None
