"""Options of BERT-flow (Li et al., EMNLP 2020)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from cse_train.fields import Added, Range
from cse_train.methods.options import PlainPooler
from cse_train.plugins.options import Options


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Options of BERT-flow; defaults are the released config_l3_d3_w32.

    `train.corpus` gives the variant: nli, or target:NAME. Every text column of the corpus counts.
    """

    VERSION = 2
    ADDED: ClassVar = {"encoder_dropout": Added(False), "loss": Added("mean"), "first_batch": Added("all")}

    pooler: PlainPooler = "first_last_layer1"
    """Pooling of the embeddings that the flow maps. The released avg-last-2 adds `all_encoder_layers[-i]` for i = 0, 1,
    which is layer 1 + the last."""
    levels: Annotated[int, Range(low=1)] = 3
    """Number of levels of the flow, of which each has half the dimensions of the one before."""
    depth: Annotated[int, Range(low=1)] = 3
    """Number of flow steps of a level."""
    width: Annotated[int, Range(low=1)] = 32
    """Hidden units of each coupling network."""
    encoder_dropout: bool = True
    """True where the frozen encoder drops out in training, as released (run_siamese.py:148-150, `is_training`)."""
    loss: Literal["sum", "mean"] = "sum"
    """Loss of a row's texts, as minimised and clipped: the sum over the columns of their means (released
    run_siamese.py:282), or the mean over all texts."""
    first_batch: Literal["first_column", "all"] = "first_column"
    """Texts of the first batch that set actnorm: the first column's (released glow_init_hook.py:17-23, which runs the
    first tower's op alone), or all."""

    def version(self) -> int:
        """Returns the version of a run's numbers: 1 where no option is as released, else 2."""
        return 1 if (self.encoder_dropout, self.loss, self.first_batch) == (False, "mean", "all") else self.VERSION

    def text_columns(self) -> tuple[str, ...]:
        """Returns (): the method reads every text of a row, whatever the columns."""
        return ()
