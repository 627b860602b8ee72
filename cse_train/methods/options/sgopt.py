"""Options of SG-OPT (Kim, Yoo and Lee, ACL 2021)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from cse_train.fields import Added, Range
from cse_train.plugins.options import Options


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Options of SG-OPT; defaults are the paper's; `train.adam_beta2` is 0.9 in its released code."""

    VERSION = 2
    POOLER = "cls_no_mlp"
    ADDED: ClassVar = {"guide_dropout": Added(False), "opt2_negatives": Added("all")}

    objective: Literal["base", "opt1", "opt2", "opt3"] = "opt3"
    """Loss: NT-Xent with one layer of the fixed encoder as guide (base), or a redesign of it; opt3 has all layers."""
    guide: Literal["max", "mean"] = "max"
    """Pooling of a layer's tokens to a guide; the released code's default is mean."""
    temperature: Annotated[float, Range(above=0)] = 0.01
    """Temperature by which the cosines are divided."""
    lambda_weight: Annotated[float, Range(low=0)] = 0.1
    """Weight of the squared distance between the trained encoder and the fixed one."""
    projection_width: Annotated[int, Range(low=1)] = 4096
    """Width of both layers of the projection head."""
    train_embeddings: bool = False
    """True to train the embedding layer too; the released code freezes it."""
    guide_dropout: bool = True
    """True where the fixed encoder drops out in training: it does as released, where `fit` puts the loss, which holds
    it, into training mode after loss.py:238 put it into eval mode (modules.py:248-250)."""
    opt2_negatives: Literal["all_but_first", "all"] = "all_but_first"
    """Negatives of opt2 among the other sentences' guides: without the first of them, which the released slice leaves
    out (loss.py:125), or all (paper)."""

    def version(self) -> int:
        """Returns the version of a run's numbers: 2 if the fixed encoder drops out or a negative is missing, else 1."""
        one_less = self.objective == "opt2" and self.opt2_negatives == "all_but_first"
        return self.VERSION if self.guide_dropout or one_less else 1

    def first_token(self) -> str | None:
        """Returns the setting that reads position 0: the method's own pooling."""
        return "method=sgopt"
