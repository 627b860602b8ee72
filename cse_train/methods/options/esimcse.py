"""Options of ESimCSE (Wu et al., COLING 2022)."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cse_train.encoder.gone import FIRST_GENERATOR
from cse_train.encoder.identity import generator_hash
from cse_train.fields import Range
from cse_train.methods.options import Pooler
from cse_train.plugins.options import Options


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Options of ESimCSE; defaults are the paper's for BERT-base."""

    VERSION = 2

    pooler: Pooler = "cls_train_only"
    """Pooling: [CLS] with MLP, in training only or without; mean; last position; mean of two layers."""
    temperature: Annotated[float, Range(above=0)] = 0.05
    """Temperature by which the cosines are divided."""
    extension: Literal["subword", "word", "stop_word", "mask", "masked_prediction"] = "subword"
    """Way to lengthen view 2 (table 5): repeated sub-words or words, or something inserted behind words."""
    generator: str = FIRST_GENERATOR
    """Frozen masked LM whose most probable sub-word the extension masked_prediction inserts; it has to be named."""
    dup_rate: Annotated[float, Range(low=0, below=1)] = 0.32
    """Largest share of the sub-words, or words, after which view 2 is extended; 0 for off."""
    dup_rule: Literal["paper", "released"] = "paper"
    """Rule for the number of extensions: paper eq. 3, or the released train.py:498-531, which makes fewer."""
    queue_multiple: Annotated[float, Range(low=0)] = 2.5
    """Queue size as a multiple of the batch, at least 1; 0 for no queue and no momentum encoder."""
    momentum: Annotated[float, Range(low=0, high=1)] = 0.995
    """Decay of the momentum encoder per step."""
    momentum_init: Literal["pretrained", "random"] = "pretrained"
    """Start of the momentum encoder: the paper means pretrained, the released code starts from random weights."""
    queue_scope: Literal["gathered", "local"] = "gathered"
    """Scope of the queue: one for all ranks (any world size gives an equal run), or one per rank as released."""

    def inputs(self) -> dict[str, str]:
        """Returns the content hash of the generator, where the extension uses one."""
        return {"generator": generator_hash(self.generator)} if self.extension == "masked_prediction" else {}

    def rank_dependent(self) -> bool:
        """Returns whether the result depends on the world size."""
        return self.queue_scope == "local" and self.queue_multiple > 0

    def dropout_alone(self) -> str | None:
        """Returns the setting under which only dropout makes the views differ: view 2 is not extended. Else None."""
        return None if self.dup_rate else "method.dup_rate=0"

    def both_ends(self) -> str | None:
        """Returns the setting that edits a text between the special tokens of both ends: the extension, or None."""
        return f"method.extension={self.extension}" if self.dup_rate else None
