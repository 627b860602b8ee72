"""Options of DeCLUTR (Giorgi et al., ACL 2021)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from cse_train.fields import Added, Range
from cse_train.methods.options import PlainPooler
from cse_train.plugins.options import Options


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Options of DeCLUTR; defaults are the paper's. `train.batch_size` counts documents (paper: 16)."""

    VERSION = 3
    ADDED: ClassVar = {"lower_case": Added(False)}

    anchors: Annotated[int, Range(low=1)] = 2
    """Number of anchor spans of a document, A."""
    positives: Annotated[int, Range(low=1)] = 2
    """Number of positive spans of an anchor, P; the anchor is paired with their mean."""
    min_length: Annotated[int, Range(low=1)] = 32
    """Length of the shortest span in tokens, special tokens not counted."""
    max_length: Annotated[int, Range(low=1)] = 512
    """Bound on a span's length in tokens, and distance between anchors of a document; at most 510 tokens are read."""
    strategy: Literal["both", "adjacent", "subsuming"] = "both"
    """Places of positives: across, next to or inside the anchor; next to it only; inside it only."""
    temperature: Annotated[float, Range(above=0)] = 0.05
    """Temperature by which the cosines are divided."""
    objective: Literal["both", "contrastive", "masked_lm"] = "both"
    """Loss: contrastive and masked-LM with weight 1, or one of them; contrastive alone reads unmasked anchors."""
    mlm_probability: Annotated[float, Range(above=0, below=1)] = 0.15
    """Share of an anchor's tokens that are masked; the anchor's embedding comes from the masked input."""
    lower_case: bool = True
    """True to lower-case documents, as the released preprocessing does (scripts/preprocess_openwebtext.py)."""
    short_documents: Literal["drop", "adapt"] = "drop"
    """Treatment of documents below 2 * A * max_length tokens: drop them, or lower max_length, down to min_length."""
    pooler: PlainPooler = "mean"
    """Pooling of token vectors: mean over attended positions, [CLS], the last position, or a mean of two layers."""

    def version(self) -> int:
        """Returns the version of a run's numbers: 3 with the masked-LM loss, which does not train [PAD]; else 2."""
        return 2 if self.objective == "contrastive" else self.VERSION

    def both_ends(self) -> str | None:
        """Returns the setting that edits a text between the special tokens of both ends: spans are cut out there."""
        return "method=declutr"
