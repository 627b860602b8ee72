"""3,000 tickets as a company has them, on its own BERT: from the YAML to the exported model by one start."""

import csv
import json
import random
from pathlib import Path

import pytest
import torch

from cse.cli.app import main
from tests.commands import printed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
NOUNS = "printer invoice login password delivery router license mailbox headset order".split()
VERBS = "fails stopped hangs is missing arrived late broke again needs a reset".split()
SPACE = """version: 1
id: tickets
seeds: 1
corpus: {file: data/tickets.csv, on_empty: skip, deduplicate: true}
dev: {file: data/dev.tsv, name: tickets_dev, kind: ratings}
evaluate: [{file: data/held.tsv, kind: ratings}]
set: {train.encoder: models/bert, train.examples: 512, train.batch_size: 32, train.evaluations: 4}
search: {sampler: random, num_samples: 5, scheduler: asha}
space:
  method: {choice: [simcse, esimcse, diffcse]}
  train.learning_rate: {loguniform: [1e-4, 1e-2]}
  method.generator: {choice: [models/bert], when: {method: [diffcse]}}
"""


def write_tickets(folder: Path) -> tuple[int, int]:
    """A spreadsheet's CSV with 8% empty rows and 20% equal ones, and two sets of pairs; the counts of both."""
    drawn, texts = random.Random(0), list[str]()

    def ticket() -> str:
        return (
            f"{drawn.choice(NOUNS)} {drawn.choice(VERBS)} in room {drawn.randrange(400)} since {drawn.randrange(1, 99)}"
        )

    for _ in range(3000):
        part = drawn.random()
        kept = [text for text in texts if text] if 0.08 <= part < 0.28 else []
        texts.append("" if part < 0.08 else drawn.choice(kept) if kept else ticket())
    folder.mkdir()
    with (folder / "tickets.csv").open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=";").writerows([("no", "body"), *enumerate(texts)])
    for name in ("dev", "held"):
        pairs = [(ticket(), ticket()) for _ in range(60)]
        rows = [f"{left}\t{right}\t{len(set(left.split()) & set(right.split()))}\n" for left, right in pairs]
        (folder / f"{name}.tsv").write_text("sentence1\tsentence2\tscore\n" + "".join(rows), encoding="utf8")
    filled = [text for text in texts if text]
    return len(texts) - len(filled), len(filled) - len(set(filled))


def write_bert(folder: Path) -> None:
    """A masked language model with a vocabulary of its own."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

    special = {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=list(special.values()))
    made.train_from_iterator([*NOUNS, *VERBS, "in room since", *map(str, range(400))], trainer)
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, **special)
    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **size)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def test_tickets_become_a_model_without_an_edit_of_data_or_a_second_start(
    ray_cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    empty, equal = write_tickets(tmp_path / "data")
    write_bert(tmp_path / "models" / "bert")
    Path("tickets.yaml").write_text(SPACE, encoding="utf8")
    assert main(["run", "tickets.yaml", "--yes"]) == 0
    said = capsys.readouterr()
    assert f"3,000 rows; {empty} empty, left out; {equal} equal to an earlier one, left out" in said.err
    assert " 0 failed, " in said.out + said.err and empty > 200 and equal > 500
    trials = json.loads(printed(capsys, "trials", "tickets", "--format", "json"))["rows"]
    best = max((trial for trial in trials if trial["state"] == "done"), key=lambda trial: trial["best"])
    assert main(["export", best["signature"], "--to", "model"]) == 0
    assert Path("model/modules.json").is_file()
