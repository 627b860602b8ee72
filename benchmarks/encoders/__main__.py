"""`python -m benchmarks.encoders words-l2-h128 --text FILE --to DIR`: pretrains a shipped encoder again by its card.

The text is `wiki/wiki_sentences.txt.gz` of `cse data get wiki1m`; the card has its hash. Another card.json, with its
recipe changed, makes another encoder: `--set train.encoder=DIR` uses it.
"""

import argparse
import hashlib
import json
import math
import time
from pathlib import Path

import torch
from safetensors.torch import save

from benchmarks.encoders.batches import Corpus
from benchmarks.encoders.recipe import Recipe, write_tokenizer
from benchmarks.encoders.training import MaskedLM, held_out_report, train
from cse_train.data_paths import DataPaths
from cse_train.encoder.folders import find_weights
from cse_train.encoder.identity import load_tokenizer
from cse_train.encoder.pooling import make_pooled
from cse_train.encoder.transformers_io import export_masked_lm
from cse_train.evaluate.embedding import StsEvaluator, evaluating
from cse_train.evaluate.pairs import Pairs, load_pairs
from cse_train.numerics import Diverged, multiplies_bf16
from cse_train.text.files import open_text
from cse_train.text.tokens import tokenizer_hash

DEV_POOLERS = ("cls_no_mlp", "mean", "first_last")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.encoders", description="Pretrain a miniature encoder again.")
    parser.add_argument("encoder", help="a shipped encoder's name, or a card.json")
    parser.add_argument("--text", type=Path, required=True, help="one sentence a line, plain or .gz")
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--senteval", type=Path, help="SentEval's data: STS-B dev is scored while it trains")
    asked = parser.parse_args()
    card = Path(asked.encoder) if asked.encoder.endswith(".json") else find_weights() / asked.encoder / "card.json"
    dev = load_pairs("sts_dev", DataPaths(senteval=asked.senteval)) if asked.senteval else None
    pretrain(json.loads(card.read_text())["recipe"], asked.text, asked.to, dev=dev)


def pretrain(
    stored: dict[str, object], text: Path, out: Path, *, dev: Pairs | None = None, every: int = 2_000_000
) -> None:
    """Pretrains an encoder by a card's recipe; writes weights in fp16, configuration, tokenizer and card to `out`.

    Raises Diverged, before weights are written, for a loss that is none and for a weight that fp16 does not hold.
    """
    recipe = Recipe.of_card(stored)
    with open_text(text) as read:
        lines = [stripped for line in read if (stripped := line.strip())]
    start = write_tokenizer(recipe, lines, out)
    tokenizer = load_tokenizer(out)
    corpus = Corpus.of(lines, tokenizer)
    evaluator = dev and StsEvaluator(dev, tokenizer)
    losses, dev_scores, begun = list[dict[str, float]](), list[dict[str, float | None]](), time.perf_counter()

    def report(model: MaskedLM, tokens: int, loss: float) -> None:
        losses.append({"tokens": tokens, "seconds": round(time.perf_counter() - begun), "loss": loss})
        if evaluator is not None:
            with evaluating(model.encoder):
                place = model.head.bias.device
                scores = {name: evaluator(make_pooled(model.encoder, name), place).spearman for name in DEV_POOLERS}
            rounded = {name: None if math.isnan(score) else round(score, 2) for name, score in scores.items()}
            dev_scores.append({"tokens": tokens, **rounded})
        print(json.dumps(losses[-1]), flush=True)

    model = train(recipe, corpus, start, every, report)
    in_bf16 = model.head.bias.device.type != "cpu" or multiplies_bf16()
    written = {
        "recipe": stored,
        "tokens": losses[-1]["tokens"],
        "seconds": losses[-1]["seconds"],
        "precision": {"training": "bf16 autocast, fp32 weights" if in_bf16 else "fp32", "shipped": "fp16"},
        "torch": torch.__version__,
        "text": text.name,
        "text_sha256": hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest(),
        "tokenizer_hash": tokenizer_hash(tokenizer),
        "held_out": held_out_report(model, corpus, recipe),
        "training_loss": losses,
        "sts_dev_against_tokens": dev_scores,
    }
    halves = {name: tensor.half() for name, tensor in export_masked_lm(model.encoder, model.head).items()}
    if large := [name for name, tensor in halves.items() if not tensor.isfinite().all()]:
        raise Diverged(f"weights too large: {large[0]} has numbers that fp16 does not hold; lower learning_rate")
    (out / "model.safetensors").write_bytes(save(halves, metadata={"format": "pt"}))
    config = model.encoder.config.to_dict() | {"architectures": ["BertForMaskedLM"], "dtype": "float32"}
    config.pop("_name_or_path", None)
    for name, content in (("config.json", config), ("card.json", written)):
        (out / name).write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf8")
    tokenizer.save_pretrained(out)


if __name__ == "__main__":
    main()
