"""Options of DiffCSE (Chuang et al., NAACL 2022)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from cse_train.encoder.identity import generator_hash
from cse_train.fields import Added, Range
from cse_train.methods.options import Pooler
from cse_train.plugins.options import Options
from cse_train.text.file_corpora import PAIR_COLUMNS


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Options of DiffCSE; defaults are the paper's for BERT on STS."""

    VERSION = 3
    ADDED: ClassVar = {"edits": Added("live"), "objective": Added("unsupervised"), "hard_negative_weight": Added(1.0)}

    pooler: Pooler = "cls_train_only"
    """Pooling: [CLS] with projector, in training only or without; mean; last position; mean of two layers."""
    projector: Literal["mlp", "batchnorm"] = "batchnorm"
    """Projector after [CLS]: two layers with BatchNorm over views and ranks (appendix A), or SimCSE's tanh layer."""
    temperature: Annotated[float, Range(above=0)] = 0.05
    """Temperature by which the cosines are divided."""
    objective: Literal["unsupervised", "triplets"] = "unsupervised"
    """Views: two dropout views of a sentence, or the sent0, sent1, hard_neg columns of an NLI file (D2CSE, table 8)."""
    hard_negative_weight: Annotated[float, Range(above=0)] = 1.0
    """Weight of an example's own hard negative in the contrastive loss."""
    masking_ratio: Annotated[float, Range(above=0, below=1)] = 0.30
    """Share of the tokens that the operator masks, inserts or deletes (table 7; insert and delete rows: 0.15)."""
    lambda_weight: Annotated[float, Range(low=0)] = 0.005
    """Weight of the conditional task (table 8; the released code's default is 0.1)."""
    generator: str = "distilbert-base-uncased"
    """Frozen masked LM that fills the masked sentence: a shipped encoder, a folder or a hub model (table 6)."""
    generator_dropout: bool = True
    """True to keep the generator's dropout on in training, as the released code does."""
    sampling: Literal["greedy", "sample"] = "greedy"
    """Choice of a filled token: the most probable one (diffcse/models.py:184), or a random draw (abstract)."""
    edits: Literal["live", "stored"] = "live"
    """Time of the generator's edits: at every step, or once for all runs with its settings, seed and corpus."""
    reduction: Literal["mean_all", "mean_attended", "sum"] = "mean_all"
    """Reduction of the replaced-token loss: mean with padding (models.py:272), mean without, or the paper's sum."""
    operator: Literal["replace", "insert", "delete", "all"] = "replace"
    """Edit of the sentence (table 4); all: delete, then insert, then replace, one label for all three."""
    task: Literal["replaced_token", "masked_lm", "corrective_lm", "none"] = "replaced_token"
    """Prediction from embedding and edited sentence (table 3): edits, masked tokens, or originals by copying."""
    source: Literal["same", "next", "both"] = "same"
    """Sentence that is edited and conditioned on the embedding: itself, the next line of the file, or both."""
    contrastive: bool = True
    """True where the contrastive loss is part of the objective (table 3, w/o contrastive loss)."""
    extra: Literal["none", "positives", "negatives"] = "none"
    """Use of edited sentences as further positives or hard negatives of SimCSE in place of a task (table 15)."""

    def inputs(self) -> dict[str, str]:
        """Returns the generator's content hash, where the configuration uses a generator."""
        return {"generator": generator_hash(self.generator)} if has_generator(self) else {}

    def version(self) -> int:
        """Returns the version of a run's numbers: 3 with a conditional task, which does not train [PAD]; else 2."""
        return 2 if self.task == "none" else self.VERSION

    def dropout_alone(self) -> str | None:
        """Returns the setting under which only dropout makes the views differ; edited sentences are no views."""
        return "method.objective=unsupervised" if self.contrastive and self.objective == "unsupervised" else None

    def first_token(self) -> str | None:
        """Returns the setting, beside a pooler, that reads or writes position 0; None where there is none."""
        return None if self.task == "none" else f"method.task={self.task}"

    def both_ends(self) -> str | None:
        """Returns the setting that edits a text between the special tokens of both ends: the operator, or None."""
        return None if self.task == self.extra == "none" else f"method.operator={self.operator}"

    def text_columns(self) -> tuple[str, ...]:
        """Returns the corpus's text columns that the objective reads."""
        return PAIR_COLUMNS if self.objective == "triplets" else ("text",)


def has_generator(config: Config) -> bool:
    """Returns whether a generator fills anything: deletion and the masked-LM task need none."""
    fills = config.task in ("replaced_token", "corrective_lm") or config.extra != "none"
    return fills and config.operator != "delete"
