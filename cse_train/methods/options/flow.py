"""Options of BERT-flow (Li et al., EMNLP 2020)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from cse_train.fields import Added, Range
from cse_train.methods.options import PlainPooler
from cse_train.plugins.options import Options


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Defaults are the released config_l3_d3_w32; `train.corpus` says the variant: nli, or target:NAME.

    Every text column of the corpus counts.
    """

    VERSION = 2
    ADDED: ClassVar = {"encoder_dropout": Added(False), "loss": Added("mean"), "first_batch": Added("all")}

    pooler: PlainPooler = "first_last_layer1"
    """What flows. The released avg-last-2 adds `all_encoder_layers[-i]` for i = 0, 1: that is layer 1 + the last."""
    levels: Annotated[int, Range(low=1)] = 3
    """Levels, of which each has half the dimensions of the one before."""
    depth: Annotated[int, Range(low=1)] = 3
    """Flow steps of a level."""
    width: Annotated[int, Range(low=1)] = 32
    """Hidden units of a coupling network."""
    encoder_dropout: bool = True
    """Whether the frozen encoder drops out in training, as released (run_siamese.py:148-150, `is_training`)."""
    loss: Literal["sum", "mean"] = "sum"
    """What of a row's texts is minimised, and clipped: the sum over the columns of their means (released
    run_siamese.py:282), or the mean over all."""
    first_batch: Literal["first_column", "all"] = "first_column"
    """Which texts of the first batch set actnorm: the first column's (released glow_init_hook.py:17-23, which runs the
    first tower's op alone), or all."""

    def version(self) -> int:
        """1 where nothing is as released: the encoder is still, and all texts count alike."""
        return 1 if (self.encoder_dropout, self.loss, self.first_batch) == (False, "mean", "all") else self.VERSION

    def text_columns(self) -> tuple[str, ...]:
        """None in particular: every text of a row counts."""
        return ()
