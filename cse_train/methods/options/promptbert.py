"""Options of PromptBERT (Jiang et al., EMNLP 2022)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from cse_train.fields import Added, Range
from cse_train.plugins.options import Options


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Defaults are the released ones for unsupervised BERT-base; `train.learning_rate` there is 1e-5."""

    VERSION = 2
    ADDED: ClassVar = {"dev_denoising": Added(False), "end_mark": Added(False), "bare_positions": Added("as_filled")}

    template: str = 'This sentence of "[X]" means [MASK].'
    """View 1's and the test's template: [X] is the sentence, the vector of [MASK] its embedding."""
    second_template: str = 'This sentence : "[X]" means [MASK].'
    """View 2's; the same as `template` leaves dropout as the views' one difference."""
    denoising: Literal["training", "always", "none"] = "training"
    """When the vector of the template without its sentence is subtracted; released for training alone."""
    dev_denoising: bool = True
    """Whether what is subtracted in training is so too where the dev set picks a checkpoint (released models.py:290-300
    and 364-368), or as at test."""
    bare_positions: Literal["from_0", "as_filled"] = "from_0"
    """Where the template without its sentence begins: at position 0, as released (models.py:96 and 293), or where
    texts do, which is 2 for RoBERTa; BERT's are the same."""
    end_mark: bool = True
    """Put a "." behind a text that does not end in one of . ? " ', at test alone (released evaluation.py:201-202)."""
    projector: Literal["train_only", "none"] = "train_only"
    """SimCSE's tanh layer on the vector, in training only, or nothing."""
    temperature: Annotated[float, Range(above=0)] = 0.05
    """Divides the cosines."""

    def dropout_alone(self) -> str | None:
        """As SimCSE's: both views stand in one template."""
        return "method.second_template=method.template" if self.second_template == self.template else None

    def both_ends(self) -> str | None:
        """As SimCSE's: a template stands between them."""
        return "method=promptbert"

    def version(self) -> int:
        """1 where all is as before, and no blank stands before the sentence, which was a token there."""
        blank = any(text.partition("[X]")[0][-1:].isspace() for text in (self.template, self.second_template))
        plain = not (self.dev_denoising or self.end_mark) and self.bare_positions == "as_filled"
        return 1 if plain and not blank else self.VERSION
