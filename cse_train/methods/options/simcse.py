"""Options of SimCSE (Gao et al., EMNLP 2021)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from cse_train.encoder.gone import FIRST_GENERATOR
from cse_train.encoder.identity import generator_hash
from cse_train.fields import Added, Range
from cse_train.methods.options import Pooler
from cse_train.plugins.options import Options
from cse_train.text.file_corpora import PAIR_COLUMNS
from cse_train.text.synonyms import wordnet_folder, wordnet_hash


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Options of SimCSE; defaults are the paper's for unsupervised BERT."""

    VERSION = 2
    """Version of the method's numbers without the masked-LM loss, which has its own (`version`)."""
    ADDED: ClassVar = {"mlm_decoder": Added("tied", within="mlm_weight")}

    objective: Literal["unsupervised", "pairs", "triplets", "next_sentence", "next_3_sentences"] = "unsupervised"
    """Views: two of a sentence; the sent0, sent1 (, hard_neg) columns; the next row; or one of the next three rows."""
    encoders: Literal["shared", "two"] = "shared"
    """Encoders: one for all views, or a second one, equal at first and trained too, for view 2 and hard negatives."""
    augmentation: Literal["none", "crop", "word_deletion", "delete_one_word", "synonym", "mlm"] = "none"
    """Augmentation of view 2 on top of dropout, which stays on; `train.dropout` 0 leaves the augmentation alone."""
    augmentation_rate: Annotated[float, Range(above=0, below=1)] = 0.1
    """Share of the words that crop and word_deletion take out, or of the sub-words that mlm replaces."""
    synonyms: str | None = None
    """Folder with WordNet's data files for the augmentation synonym; null for Debian's /usr/share/wordnet."""
    generator: str = FIRST_GENERATOR
    """Frozen masked LM whose most probable sub-words the augmentation mlm puts in; it has to be named."""
    pooler: Pooler = "cls_train_only"
    """Pooling: [CLS] with MLP, in training only or without; mean; last position; mean of two layers."""
    projector: Literal["mlp", "batchnorm"] = "mlp"
    """Projector after [CLS]: SimCSE's tanh layer, or DiffCSE's with BatchNorm (its table 5)."""
    temperature: Annotated[float, Range(above=0)] = 0.05
    """Temperature by which the cosines are divided."""
    hard_negative_weight: Annotated[float, Range(above=0)] = 1.0
    """Weight a of an example's own hard negative (paper, appendix; the released flag is log a)."""
    fixed_dropout: bool = False
    """True to use one dropout mask for both views ("Fixed 0.1" in the dropout table): one pass, z2 = z1."""
    mlm_weight: Annotated[float, Range(above=0)] | None = None
    """Weight of the (first) encoder's masked-LM auxiliary loss (released: 0.1); null for off."""
    mlm_probability: Annotated[float, Range(above=0, below=1)] = 0.15
    """Share of the tokens that the auxiliary masked-LM loss masks."""
    mlm_decoder: Literal["released", "tied"] = "released"
    """Decoder of the masked-LM loss: one of its own that starts as the word embeddings, or the word embeddings.

    BertForCL and RobertaForCL tie nothing under transformers 4.2.1 (they have no get_output_embeddings), and train
    lm_head.decoder from BertForPreTraining's (train.py:371-373) or the file's, both equal to the word embeddings.
    """

    def version(self) -> int:
        """Returns the version of a run's numbers: 3 with the masked-LM loss, which does not train [PAD]; else 2."""
        return self.VERSION if self.mlm_weight is None else 3

    def inputs(self) -> dict[str, str]:
        """Returns content hashes of the generator and of WordNet, where the augmentation uses them."""
        if self.augmentation == "mlm":
            return {"generator": generator_hash(self.generator)}
        return {"synonyms": wordnet_hash(wordnet_folder(self.synonyms))} if self.augmentation == "synonym" else {}

    def dropout_alone(self) -> str | None:
        """Returns the setting under which only dropout makes the two views of a text differ; None otherwise."""
        edited = self.objective != "unsupervised" or self.augmentation != "none"
        return None if edited or self.fixed_dropout else "method.augmentation=none"

    def both_ends(self) -> str | None:
        """Returns the setting that edits a text between the special tokens of both ends: the augmentation, or None."""
        return None if self.augmentation == "none" else f"method.augmentation={self.augmentation}"

    def text_columns(self) -> tuple[str, ...]:
        """Returns the corpus's text columns that the objective reads."""
        return {"pairs": PAIR_COLUMNS[:2], "triplets": PAIR_COLUMNS}.get(self.objective, ("text",))
