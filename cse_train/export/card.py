"""Writes the model card: README.md with the front matter that the hub reads, and the origin of every number."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cse_train.config import RunConfig, evaluation_steps
from cse_train.evaluate.pairs import set_name, split_of, suite_names
from cse_train.export.folders import Parts
from cse_train.results import CODE_VERSION, Lineage

LOAD = """```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("PATH_OR_NAME"{trust})
embeddings = model.encode(["A sentence.", "Another one."])
```"""
"""Python code of the model card that loads a sentence-transformers folder."""
LOAD_HF = """```python
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("PATH_OR_NAME")
model = AutoModel.from_pretrained("PATH_OR_NAME").eval()
batch = tokenizer({texts}, padding=True, truncation=True, return_tensors="pt")
out = model(**batch, output_hidden_states=True)
{pooling}
```"""
"""Python code of the model card that loads a transformers folder."""
MEAN_CODE = """mask = batch["attention_mask"][:, :, None]
embeddings = ({tokens} * mask).sum(1) / mask.sum(1)"""
"""Python code of the model card that averages the attended positions of `tokens`."""
AVERAGE = "(out.hidden_states[{layer}] + out.last_hidden_state) / 2"
POOLING_CODE = {
    "cls": "embeddings = out.pooler_output",
    "cls_train_only": "embeddings = out.last_hidden_state[:, 0]",
    "cls_no_mlp": "embeddings = out.last_hidden_state[:, 0]",
    "mean": MEAN_CODE.format(tokens="out.last_hidden_state"),
    "last": """last = batch["attention_mask"].sum(1) - 1
embeddings = out.last_hidden_state[range(len(last)), last]""",
    "first_last": MEAN_CODE.format(tokens=AVERAGE.format(layer=0)),
    "first_last_layer1": MEAN_CODE.format(tokens=AVERAGE.format(layer=1)),
}
"""Pooler -> Python code of the model card that pools transformers' output."""


def write_card(parts: Parts, form: str, lineage: Lineage, folder: Path) -> None:
    """Writes README.md of an exported folder; its numbers come from the checkpoint's header and the ledger."""
    text = "\n\n".join(_sections(parts, form, lineage))
    (folder / "README.md").write_text(text + "\n", encoding="utf8")


def _sections(parts: Parts, form: str, lineage: Lineage) -> Iterator[str]:
    run = parts.run
    yield _front_matter(run.method, form)
    yield f"# {run.method} on {_shorten(run.train.encoder)}\n\nSentence embeddings of {parts.encoder.width} numbers."
    yield "## Load\n\n" + _load(parts, form)
    yield "## Training run\n\n" + _table(_origin(run, lineage))
    yield "## Selection\n\n" + _table(_selection(run, parts.facts, lineage))
    yield "## Scores\n\n" + _scores(parts, lineage)
    settings = {key: _shorten(value) for key, value in run.flat().items()}
    yield "## Settings\n\n```json\n" + json.dumps(settings, indent=1) + "\n```"
    if lineage.hashes:
        yield "## Content hashes\n\n" + _table(lineage.hashes.items())


def _front_matter(method: str, form: str) -> str:
    library = "transformers" if form == "hf" else form
    tags = dict.fromkeys([library, "sentence-similarity", "feature-extraction", "cse-search", method])
    lines = ["---", f"library_name: {library}", "pipeline_tag: sentence-similarity", "tags:"]
    return "\n".join([*lines, *(f"- {tag}" for tag in tags), "# license: yours to choose; mind the data's", "---"])


def _load(parts: Parts, form: str) -> str:
    if form == "hf":
        texts = json.dumps([f"{parts.prompt}A sentence.", f"{parts.prompt}Another one."], ensure_ascii=False)
        return LOAD_HF.format(texts=texts, pooling=POOLING_CODE[parts.pooler.pooler])
    if parts.prompted is None:
        return LOAD.format(trust="")
    file = "The prompts are read by this folder's `prompted_transformer.py`"
    return LOAD.format(trust=", trust_remote_code=True") + f"\n\n{file}: sentence-transformers 3.1 or newer."


def _origin(run: RunConfig, lineage: Lineage) -> Iterator[tuple[str, object]]:
    if lineage.sweeps:
        yield "sweep", ", ".join(lineage.sweeps)
    if lineage.cell:
        yield "cell", ", ".join(f"{key}={value}" for key, value in lineage.cell.items())
    if lineage.signature:
        yield "run signature", lineage.signature
    yield "method", run.method
    yield "seed", run.train.seed
    yield "encoder", _shorten(run.train.encoder)
    yield "corpus", run.train.corpus
    provenance = lineage.provenance
    stored = provenance.get("versions")
    versions = stored if isinstance(stored, Mapping) else {}
    named = (("commit", "commit"), ("code", "code_digest"))
    yield from ((name, provenance[key]) for name, key in named if provenance.get(key))
    yield from ((name, versions[name]) for name in ("cse-search", "torch", "transformers") if name in versions)


def _selection(run: RunConfig, facts: Mapping[str, object], lineage: Lineage) -> Iterator[tuple[str, object]]:
    dev = run.train.dev
    yield "selected on", f"{dev}, split {_dev_split(dev)}"
    yield "rule", f"first maximum of its Spearman correlation over {len(evaluation_steps(run.train))} evaluations"
    if "best" in facts:
        yield "best", f"{facts['best']:.2f} after {facts['best_examples']} examples"
    finished = {seed: best for seed, best in lineage.seeds.items() if best is not None}
    if finished:
        each = ", ".join(f"{seed}: {best:.2f}" for seed, best in sorted(finished.items()))
        yield "seeds of the same setting", f"{each}; mean {sum(finished.values()) / len(finished):.2f}"


def _scores(parts: Parts, lineage: Lineage) -> str:
    rows = [(suite, f"{value:.2f}", _describe(protocol)) for suite, value, protocol in lineage.scores]
    train = parts.run.train
    if "best" in parts.facts and train.dev not in {suite for suite, _, _ in lineage.scores}:
        protocol = {
            "pooler": parts.pooler.pooler,
            "split": _dev_split(train.dev),
            "max_length": train.dev_max_length,
            "aggregation": "all",
            "precision": "fp32",
            "code_version": CODE_VERSION,
        }
        rows.insert(0, (train.dev, f"{parts.facts['best']:.2f}", _describe(protocol)))
    head = ["| suite | value | protocol |", "| --- | --- | --- |"]
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in rows)]) if rows else "None is stored."


def _dev_split(dev: str) -> str:
    """Returns the split of a shipped set; "dev" for a user's own set, since it picked the checkpoint."""
    return split_of(dev) if set_name(dev) in suite_names() else "dev"


def _describe(facts: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items() if name != "suite" and value != "")


def _table(rows: Iterable[tuple[str, object]]) -> str:
    return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)])


def _shorten(value: Any) -> Any:
    """Returns the name alone of a folder on this computer; any other value as it is."""
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value
