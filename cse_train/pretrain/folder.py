"""Writes the result of a pretraining run: a folder in transformers' layout, with a card."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import save
from transformers import PreTrainedTokenizerBase

from cse_train.backbone.transformers_io import export_masked_lm
from cse_train.fields import Json
from cse_train.numerics import Diverged
from cse_train.pretrain.run import BF16, MaskedLM, Run
from cse_train.text.vector_files import PACKAGED

CLS_TASKS = {
    "none": "",
    "next_sentence": " and by telling next sentences from others by [CLS]",
    "sentence_order": " and by telling the order of two sentences by [CLS]",
}
"""Value of `cls_task` -> clause about it in the model page."""
VOCABULARIES = {
    "pieces": "lower-casing WordPiece vocabulary of the shared tokenizer",
    "words": "lower-casing vocabulary of whole words",
    "words_and_pieces": "lower-casing WordPiece vocabulary of whole words and the shared tokenizer's pieces",
}
"""Value of `vocabulary` -> phrase for it in the model page."""


def write_weights(model: MaskedLM, folder: Path, card: Json, tokenizer: PreTrainedTokenizerBase) -> Path:
    """Writes config.json, model.safetensors, card.json, README.md and the tokenizer; returns `folder`.

    The weights are fp16 under `BertForMaskedLM` names. `AutoModel` and `AutoModelForMaskedLM` load the folder, in fp32.
    Raises Diverged, before anything is written, for a weight that fp16 does not hold.
    """
    tensors = export_masked_lm(model.encoder, model.head)
    halves = {name: tensor.to(torch.float16) for name, tensor in tensors.items()}
    if large := [name for name, tensor in halves.items() if not tensor.isfinite().all()]:
        raise Diverged(f"weights too large: {large[0]} has numbers that fp16 does not hold; lower learning_rate")
    (folder / "model.safetensors").write_bytes(save(halves, metadata={"format": "pt"}))
    config = model.encoder.config.to_dict() | {"architectures": ["BertForMaskedLM"], "dtype": "float32"}
    _write_json(folder / "config.json", {k: v for k, v in config.items() if k != "_name_or_path"})
    tokenizer.save_pretrained(folder)
    _write_json(folder / "card.json", card)
    (folder / "README.md").write_text(readme(folder.name, card), encoding="utf8")
    return folder


def make_card(run: Run, held_out: Json, *, text: str, text_hash: str, tokenizer_hash: str) -> Json:
    """Returns the card: how the weights came to be and how good they are; `text` is the name of the text's file."""
    # The parts of the run in order; points of earlier versions name no precision, and were trained in BF16.
    precisions = dict.fromkeys(point.get("precision", BF16) for point in run.log)
    return {
        "recipe": asdict(run.config),
        "tokens": run.tokens,
        "seconds": round(run.seconds),
        "precision": {"training": ", then ".join(precisions), "shipped": "fp16"},
        "torch": torch.__version__,
        "text": text,
        "text_sha256": text_hash,
        "tokenizer_hash": tokenizer_hash,
        "held_out": dict(held_out),
        "training_loss": run.log,
        "sts_dev_against_tokens": [
            {"tokens": point["tokens"], **point["sts_dev"]} for point in run.log if "sts_dev" in point
        ],
    }


def readme(name: str, card: Json) -> str:
    """Returns the model page: the card in words."""
    recipe, held_out, single = card["recipe"], card["held_out"], card["held_out"]["single_sentences"]
    layers = f"{recipe['layers']} layer{'s' if recipe['layers'] > 1 else ''}"
    size = f"{layers}, hidden size {recipe['width']}, positions 0-{recipe['max_positions'] - 1}"
    cost = f"{card['tokens'] / 1e6:.0f} M tokens of {card['text']}, {card['seconds']} s"
    vectors = recipe.get("embeddings")
    start = f"; its word embeddings start from {Path(vectors).name}" if vectors else ""
    if recipe.get("frozen"):
        moved = ", while the map to the hidden size was trained" if recipe.get("factorised") else ""
        start += f", which were held for {recipe['frozen']:.0%} of the tokens{moved}"
    terms = "Vectors: GloVe 6B, PDDL 1.0.\n\n" if vectors == PACKAGED else ""
    scored = [band for band in held_out["bands"] if band["predictions"]]
    bands = "\n".join(f"| {b['from']}-{b['to'] - 1} | {b['loss']:.3f} | {b['accuracy']:.3f} |" for b in scored)
    return f"""# {name}

A miniature BERT: {size}, {VOCABULARIES[recipe.get("vocabulary", "pieces")]}.
Pretrained by masked LM{CLS_TASKS[recipe.get("cls_task", "none")]} ({cost}){start}.
It exists so that everything runs without a model hub; it is no substitute for BERT-base.

Held-out masked LM, on text never trained on: packed to {recipe["max_positions"]} tokens, and sentence by sentence.

| positions | loss | accuracy |
|---|---|---|
{bands}
| all | {held_out["loss"]:.3f} | {held_out["accuracy"]:.3f} |
| single sentences | {single["loss"]:.3f} | {single["accuracy"]:.3f} |
{_dev_table(card["sts_dev_against_tokens"])}
{terms}`card.json` holds the whole recipe, the text's hash and the training loss; `cse pretrain` repeats it.
"""


def _dev_table(curve: Sequence[Json]) -> str:
    if not curve:
        return ""
    poolers = [key for key in curve[0] if key != "tokens"]
    lines = ["", "STS-B dev (Spearman x 100) without any training, against tokens seen:", ""]
    lines += [f"| M tokens | {' | '.join(poolers)} |", "|---" * (len(poolers) + 1) + "|"]
    for point in curve:
        values = " | ".join("-" if point[pooler] is None else f"{point[pooler]:.2f}" for pooler in poolers)
        lines.append(f"| {point['tokens'] / 1e6:.0f} | {values} |")
    return "\n".join([*lines, ""])


def _write_json(path: Path, content: Json) -> None:
    path.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf8")
