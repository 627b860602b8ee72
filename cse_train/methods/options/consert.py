"""Options of ConSERT (Yan et al., ACL 2021)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from cse_train.fields import Added, Range
from cse_train.plugins.options import Options


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Defaults are the paper's without supervision; `train.dropout` is 0 there. Adversarial noise needs labels."""

    VERSION = 2
    ADDED: ClassVar = {"train_layers": Added(None), "loss_factor": Added(1.0)}

    augmentation_1: Literal["none", "shuffle", "token_cutoff", "feature_cutoff", "dropout"] = "feature_cutoff"
    """What is done to view 1 at the embedding layer (section 3.2): permuted positions; tokens, features or single
    numbers that are zero."""
    augmentation_2: Literal["none", "shuffle", "token_cutoff", "feature_cutoff", "dropout"] = "shuffle"
    """The same for view 2."""
    token_cutoff_rate: Annotated[float, Range(above=0, below=1)] = 0.15
    """Share of a text's tokens, special ones included, that token_cutoff makes zero."""
    feature_cutoff_rate: Annotated[float, Range(above=0, below=1)] = 0.2
    """Share of the features that feature_cutoff makes zero in all tokens of a text."""
    dropout_rate: Annotated[float, Range(above=0, below=1)] = 0.2
    """Chance of each number to be made zero by dropout; the others are not scaled."""
    temperature: Annotated[float, Range(above=0)] = 0.1
    """Divides the cosines."""
    loss_factor: Annotated[float, Range(above=0)] = 1.0
    """Multiplies the loss before its gradients are clipped and meet Adam's epsilon: 0.3 in the release, none in the
    paper."""
    layers: Annotated[int, Range(low=1)] = 2
    """The last layers whose token vectors are averaged at test time (released eval.py, last2avg)."""
    train_layers: Annotated[int, Range(low=1)] | None = 1
    """The last layers that are averaged in training and where the dev set picks a checkpoint: the last alone, as
    released (main.py:189-192, its pooling); null for those of `layers`."""

    def version(self) -> int:
        """2 where training averages other layers than the test."""
        return 1 if self.train_layers in (None, self.layers) else self.VERSION

    def dropout_alone(self) -> str | None:
        """As SimCSE's: neither view is augmented."""
        alone = self.augmentation_1 == self.augmentation_2 == "none"
        return "method.augmentation_1=none, method.augmentation_2=none" if alone else None
