"""Options of DeCLUTR (Giorgi et al., ACL 2021)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from cse_train.fields import Added, Range
from cse_train.methods.options import PlainPooler
from cse_train.plugins.options import Options


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Defaults are the paper's. An example is a document, so `train.batch_size` counts documents (paper: 16)."""

    VERSION = 3
    ADDED: ClassVar = {"lower_case": Added(False)}

    anchors: Annotated[int, Range(low=1)] = 2
    """Anchor spans of a document, A."""
    positives: Annotated[int, Range(low=1)] = 2
    """Positive spans of an anchor, P, whose mean it is paired with."""
    min_length: Annotated[int, Range(low=1)] = 32
    """Shortest span in tokens, special tokens not counted."""
    max_length: Annotated[int, Range(low=1)] = 512
    """Bound on the length of a span, and the distance that anchors of one document keep; 510 tokens are read."""
    strategy: Literal["both", "adjacent", "subsuming"] = "both"
    """Where positives lie: across, beside or inside the anchor; beside it only; inside it only."""
    temperature: Annotated[float, Range(above=0)] = 0.05
    """Divides the cosines."""
    objective: Literal["both", "contrastive", "masked_lm"] = "both"
    """Sum of the two losses with weight 1, or one of them; contrastive alone reads anchors unmasked, as released."""
    mlm_probability: Annotated[float, Range(above=0, below=1)] = 0.15
    """Share of an anchor's tokens that is masked; the anchor's embedding comes from the masked input."""
    lower_case: bool = True
    """Lower-case the documents, as the released preprocessing does by default (scripts/preprocess_openwebtext.py)."""
    short_documents: Literal["drop", "adapt"] = "drop"
    """Leave out documents below 2 * A * max_length tokens, or lower max_length for them, down to min_length."""
    pooler: PlainPooler = "mean"
    """Mean over the attended positions, special tokens included; the others as SimCSE's."""

    def version(self) -> int:
        """3 with the masked-LM loss, since [PAD] does not train where masking draws it as a random word."""
        return 2 if self.objective == "contrastive" else self.VERSION

    def both_ends(self) -> str | None:
        """What puts the special tokens of a text around its spans."""
        return "method=declutr"
