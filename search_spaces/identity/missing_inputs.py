"""Finds inputs that cells lack: what is missing, where to get it, and the option that gives its path."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cse_train.config import RunConfig
from cse_train.data_paths import DataPaths
from cse_train.encoder.folders import locate
from cse_train.evaluate.suites.registry import problems
from cse_train.fields import ConfigError, Scalar
from cse_train.text import vector_files
from cse_train.text.corpora import wrong_columns
from cse_train.text.vector_files import word_vectors_file
from search_spaces.cells import ResolvedSpace
from search_spaces.identity.method_code import own_digest
from search_spaces.identity.signature import Identity, corpus_columns, identity
from search_spaces.paper import Evaluated
from search_spaces.user_data import ENCODER

DATASETS = "https://huggingface.co/datasets/princeton-nlp/datasets-for-simcse"
SNLI_MNLI = f"SNLI and MNLI, nli_for_simcse.csv of {DATASETS}"
CORPUS_SOURCES = {
    "file": f"wiki1m_for_simcse.txt of {DATASETS}, cse data get wiki1m",
    "documents": "OpenWebText, https://skylion007.github.io/OpenWebTextCorpus",
    "pairs:qqp": "Quora Question Pairs, https://quoradata.quora.com/First-Quora-Dataset-Release-Question-Pairs",
    "pairs:flickr30k": "Flickr30k, https://shannon.cs.illinois.edu/DenotationGraph",
    "pairs:paranmt": "ParaNMT-50M, https://www.cs.cmu.edu/~jwieting",
    "pairs:nli": SNLI_MNLI,
    "pairs:nli_anli": "ANLI, https://github.com/facebookresearch/anli",
}
"""Beginning of a corpus's name -> where its text is published; the longest match counts."""
NO_ENCODER = "missing encoder: "
SINGLE_TEXTS = ("text",)
"""Columns that a released method reads where its settings name none (`Method.columns`)."""
STANDARD_CORPORA = ("wiki", "documents", "nli", "target:")
"""Beginnings of the names of corpora that any `--data` folder is expected to hold."""


@dataclass(frozen=True)
class MissingInput:
    """One input that a run lacks, with the line that reports it."""

    part: str
    """Kind of the input: encoder, method (its generator or WordNet), corpus or dev."""
    line: str


def reasons(missing: Sequence[MissingInput], run: RunConfig, axes: Sequence[str] = ()) -> tuple[str, ...]:
    """Returns why a cell cannot be trained, a line for each input.

    `axes` are the settings that distinguish the rows.
    """
    lines = []
    for absent in missing:
        more = _encoder_source(absent.line, axes, run.method)
        source = source_of(run.train.corpus) if absent.part == "corpus" and not more else None
        lines.append(f"{absent.line}{more}" + (f"; get it from {source}" if source else ""))
    return tuple(dict.fromkeys(lines))


@dataclass(frozen=True)
class IncompleteCell:
    """A cell of a table that lacks an input."""

    cell: Mapping[str, Scalar]
    """Axis -> value of the cell."""
    label: str
    """Name of the cell for a person."""
    reasons: tuple[str, ...]
    """Lines with what is absent, where to get it and which option gives its path."""
    signatures: tuple[str, ...] = ()
    """Signatures, by settings, of the cell's runs that the ledger does not have."""

    @property
    def reason(self) -> str:
        """Reasons why the cell cannot be trained, joined in one line."""
        return "; ".join(self.reasons)


@dataclass
class Inputs:
    """Hashes of runs' inputs for one plan, and what is missing or assumed."""

    paths: DataPaths
    workers: int = 1
    expected: bool = False
    """True if the contents of any data folder count as present where no data are given, as `--data` would give them."""
    assumed: list[str] = field(default_factory=list)
    """Lines that name the inputs assumed to be present."""

    def of(self, run: RunConfig) -> tuple[Identity, list[MissingInput], bool]:
        """Returns the run's identity with placeholders, the inputs that it lacks, and whether it is complete."""
        absent: dict[str, str] = {}
        hashes = identity(run, self.paths, self.workers, absent)
        missing = [MissingInput(part, line) for part, line in absent.items()]
        assumed: list[MissingInput] = []
        if self._assumes_data():
            standard = ("dev", "corpus") if run.train.corpus.startswith(STANDARD_CORPORA) else ("dev",)
            assumed = [lack for lack in missing if lack.part in standard and lack.line.startswith("missing data")]
        self.assumed += [lack.line for lack in assumed if lack.line not in self.assumed]
        if "corpus" not in absent and (line := self._wrong_columns(run)):
            missing.append(MissingInput("corpus", line))
        return hashes, [lack for lack in missing if lack not in assumed], not absent

    def _wrong_columns(self, run: RunConfig) -> str:
        """Returns why a present corpus lacks the columns that the run's options read; empty where it can be trained on.

        Empty also where only the method's own class knows its columns.
        """
        declared = run.options.text_columns()
        if run.options.SHARED is not None or (declared is None and own_digest(run.method)):
            return ""
        columns = SINGLE_TEXTS if declared is None else declared
        return wrong_columns(run.train.corpus, corpus_columns(run, self.paths), run.method, columns)

    def assumed_of(self, run: RunConfig) -> Identity:
        """Returns the run's identity with placeholders for absent inputs, without noting them as missing."""
        return identity(run, self.paths, self.workers, {})

    def unscorable(self, suites: Iterable[str]) -> dict[str, str]:
        """Returns suite -> reason why its data are not at hand; runs go without its columns."""
        if self._assumes_data():
            suites = [name for name in suites if self.paths.data_set(name)]
        reasons = {name: problems([name], self.paths) for name in dict.fromkeys(suites)}
        return {name: lines[0] for name, lines in reasons.items() if lines}

    def unevaluated(self, resolved: ResolvedSpace) -> dict[str, str]:
        """Returns label of a row of the paper -> reason why its model lacks an input."""
        assumed = self._assumes_data()
        rows = {label: model for label, model in resolved.evaluated().items() if model}
        reasons = {label: lack_of(model, self.paths) for label, model in rows.items()}
        return {label: why for label, why in reasons.items() if why and not (assumed and rows[label].vectors)}

    def _assumes_data(self) -> bool:
        """Tells whether the contents of any data folder are assumed to be present (`expected`, and no data given)."""
        paths = self.paths
        has_data = any((paths.wiki, paths.documents, paths.nli, paths.pairs, paths.senteval))
        return self.expected and not has_data


def lack_of(model: Evaluated, paths: DataPaths) -> str:
    """Returns why a model of the paper cannot be scored without training, in one line; empty for one that can."""
    try:
        _ = word_vectors_file(model.vectors, paths) if model.vectors else locate(model.encoder)
    except ConfigError as error:
        return "; ".join(f"{line}{_encoder_source(line, [ENCODER])}" for line in error.problems)
    return ""


def _encoder_source(line: str, axes: Sequence[str], method: str = "") -> str:
    """Returns where to get an encoder or word vectors and how to give them; empty for a line on anything else."""
    if not line.startswith(NO_ENCODER):
        return ""
    key, _, name = line.removeprefix(NO_ENCODER).partition(";")[0].partition("=")
    get, kind, path = f"by `hf download {name}` where the hub can be reached", "folder", "DIR"
    give = f"--set {key}={path}"
    if vector_files.names_vectors(name):
        get, kind, path = f"from {vector_files.source_of(name) or 'where it is published'}", "path", "VECTORS"
        give = f"--profile FILE with `methods: {{{method}: {{{key}: {path}}}}}`"
    if key in axes:
        give = f"--profile FILE with `substitutions: {{{key}: {{{name}: {path}}}}}`"
    return f"; get it {get}, or give its {kind} by {give}"


def source_of(corpus: str) -> str | None:
    """Returns where a corpus is published; None where no paper names it."""
    names = [start for start in CORPUS_SOURCES if corpus.startswith(start)]
    return CORPUS_SOURCES[max(names, key=len)] if names else None


def group_by_reason(incomplete: Sequence[IncompleteCell], most: int | None = None) -> list[str]:
    """Returns one line per missing input with the cells that lack it, at most `most` of them by name."""
    cells: dict[str, list[str]] = {}
    for cell in incomplete:
        for why in cell.reasons:
            cells.setdefault(why, []).append(cell.label)
    lines = []
    for why, labels in cells.items():
        names = labels[: most or len(labels)]
        more = f" and {len(labels) - len(names)} more" if len(labels) > len(names) else ""
        lines.append(f"missing input: {', '.join(names)}{more}: {why}")
    return lines
