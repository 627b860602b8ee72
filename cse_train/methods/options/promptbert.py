"""Options of PromptBERT (Jiang et al., EMNLP 2022)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from cse_train.fields import Added, Range
from cse_train.plugins.options import Options


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Options of PromptBERT; defaults are the released ones for unsupervised BERT-base (`train.learning_rate` 1e-5)."""

    VERSION = 2
    ADDED: ClassVar = {"dev_denoising": Added(False), "end_mark": Added(False), "bare_positions": Added("as_filled")}

    template: str = 'This sentence of "[X]" means [MASK].'
    """Template of view 1 and of the test: [X] is the sentence, the vector of [MASK] its embedding."""
    second_template: str = 'This sentence : "[X]" means [MASK].'
    """Template of view 2; where it equals `template`, only dropout makes the views differ."""
    denoising: Literal["training", "always", "none"] = "training"
    """Phase in which the vector of the template without its sentence is subtracted; training alone as released."""
    dev_denoising: bool = True
    """True where the vector subtracted in training is subtracted for the dev score too (released models.py:290-300 and
    364-368); false for the dev score as at test."""
    bare_positions: Literal["from_0", "as_filled"] = "from_0"
    """Start of the template without its sentence: position 0, as released (models.py:96 and 293), or the position where
    texts begin, which is 2 for RoBERTa; for BERT both are equal."""
    end_mark: bool = True
    """True to put a "." behind a text without an end mark (. ? " '), at test alone (released evaluation.py:201-202)."""
    projector: Literal["train_only", "none"] = "train_only"
    """Projector on the vector: SimCSE's tanh layer, in training only, or none."""
    temperature: Annotated[float, Range(above=0)] = 0.05
    """Temperature by which the cosines are divided."""

    def dropout_alone(self) -> str | None:
        """Returns the setting under which only dropout makes the views differ: equal templates; None otherwise."""
        return "method.second_template=method.template" if self.second_template == self.template else None

    def both_ends(self) -> str | None:
        """Returns the setting that edits a text between the special tokens of both ends: a template goes there."""
        return "method=promptbert"

    def version(self) -> int:
        """Returns the version of a run's numbers: 1 where options added later are off and no blank comes before [X],
        which was a token in version 1; else 2."""
        blank = any(text.partition("[X]")[0][-1:].isspace() for text in (self.template, self.second_template))
        plain = not (self.dev_denoising or self.end_mark) and self.bare_positions == "as_filled"
        return 1 if plain and not blank else self.VERSION
