"""Options of DiffCSE (Chuang et al., NAACL 2022)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from cse_train.fields import Added, Range
from cse_train.generator.identity import generator_hash
from cse_train.methods.options import Pooler
from cse_train.plugins.options import Options
from cse_train.text.corpora.files import PAIR_COLUMNS


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Defaults are the paper's for BERT on STS."""

    VERSION = 3
    ADDED: ClassVar = {"edits": Added("live"), "objective": Added("unsupervised"), "hard_negative_weight": Added(1.0)}

    pooler: Pooler = "cls_train_only"
    """[CLS] with projector, with it in training only, without it; mean; mean of embedding + last, or layer 1 + last."""
    projector: Literal["mlp", "batchnorm"] = "batchnorm"
    """Two layers with BatchNorm over views and ranks together (appendix A), or SimCSE's linear layer with tanh."""
    temperature: Annotated[float, Range(above=0)] = 0.05
    """Divides the cosines."""
    objective: Literal["unsupervised", "triplets"] = "unsupervised"
    """Two dropout views of one sentence, or the sent0, sent1, hard_neg columns of an NLI file (D2CSE, table 8)."""
    hard_negative_weight: Annotated[float, Range(above=0)] = 1.0
    """The weight of an example's own hard negative in the contrastive loss."""
    masking_ratio: Annotated[float, Range(above=0, below=1)] = 0.30
    """Share of the tokens that the operator masks, inserts or deletes (table 7; insert and delete rows: 0.15)."""
    lambda_weight: Annotated[float, Range(low=0)] = 0.005
    """Weight of the conditional task (table 8; the released code's default is 0.1)."""
    generator: str = "distilbert-base-uncased"
    """The frozen masked LM that fills the masked sentence: a shipped encoder, a folder or a hub model (table 6)."""
    generator_dropout: bool = True
    """Keep the generator's dropout on in training, as the released code does."""
    sampling: Literal["greedy", "sample"] = "greedy"
    """The most probable token (diffcse/models.py:184), or one drawn from the generator (abstract)."""
    edits: Literal["live", "stored"] = "live"
    """When the generator edits: at every step, or once, for all runs with its settings, this seed and this corpus."""
    reduction: Literal["mean_all", "mean_attended", "sum"] = "mean_all"
    """Of the replaced-token loss: mean with padding (models.py:272), mean without, or the paper's sum."""
    operator: Literal["replace", "insert", "delete", "all"] = "replace"
    """How the sentence is edited (table 4); all: delete, then insert, then replace, one label for all three."""
    task: Literal["replaced_token", "masked_lm", "corrective_lm", "none"] = "replaced_token"
    """What is predicted from embedding and edited sentence (table 3): edits, masked tokens, originals by copying."""
    source: Literal["same", "next", "both"] = "same"
    """The sentence that is edited and conditioned on the embedding: the same, the next line of the file, or both."""
    contrastive: bool = True
    """Whether the contrastive loss is part of the objective (table 3, w/o contrastive loss)."""
    extra: Literal["none", "positives", "negatives"] = "none"
    """Edited sentences as further positives or hard negatives of SimCSE instead of a task (table 15)."""

    def inputs(self) -> dict[str, str]:
        """The generator's content hash, where the configuration uses one."""
        return {"generator": generator_hash(self.generator)} if has_generator(self) else {}

    def version(self) -> int:
        """3 since the conditional task's encoder does not train [PAD]."""
        return 2 if self.task == "none" else self.VERSION

    def dropout_alone(self) -> str | None:
        """As SimCSE's: edited sentences are no views."""
        return "method.objective=unsupervised" if self.contrastive and self.objective == "unsupervised" else None

    def first_token(self) -> str | None:
        """The setting that reads or writes position 0, beside a pooler."""
        return None if self.task == "none" else f"method.task={self.task}"

    def both_ends(self) -> str | None:
        """As SimCSE's: the edits."""
        return None if self.task == self.extra == "none" else f"method.operator={self.operator}"

    def text_columns(self) -> tuple[str, ...]:
        """The text columns that these settings read."""
        return PAIR_COLUMNS if self.objective == "triplets" else ("text",)


def has_generator(config: Config) -> bool:
    """Whether anything is filled: deletion and masked-LM need no generator."""
    fills = config.task in ("replaced_token", "corrective_lm") or config.extra != "none"
    return fills and config.operator != "delete"
