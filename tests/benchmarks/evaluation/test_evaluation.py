"""SentEval's way, which the evaluation benchmark times, finds the scores that ours finds."""

from pathlib import Path

import pytest
from transformers import AutoTokenizer, BertModel

from benchmarks.evaluation.__main__ import OURS, rows
from benchmarks.evaluation.released import senteval_way
from benchmarks.paired import Seconds
from benchmarks.step.setting import SIZES
from cse_train.backbone.folders import locate, tokenizer_folder
from cse_train.data_paths import DataPaths
from cse_train.evaluate.models.open import open_model
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.suites.sts import evaluate


def test_both_ways_score_alike():
    folder = locate("wiki-l1-h64")
    peer = BertModel.from_pretrained(folder, add_pooling_layer=False).eval()
    sets = [load_pairs(f"generated_dev:{count}", DataPaths()) for count in (150, 40)]
    theirs = senteval_way(peer, AutoTokenizer.from_pretrained(tokenizer_folder(folder)), sets)
    model = open_model(Path("wiki-l1-h64"), pooler="cls_no_mlp")
    ours = [evaluate(model, DataPaths(), members=[pairs.name])[0].value for pairs in sets]
    assert theirs == pytest.approx(ours, abs=0.01) and theirs[0] != theirs[1]


def test_rows_are_judged_by_the_ratio_and_by_the_share_of_the_training():
    times = {OURS: [Seconds(0.25, 0.25)], "slow": [Seconds(1.25, 1.25)], "slower": [Seconds(1.2, 1.2)]}
    found = list(rows(SIZES["tiny"], times, {"step": [Seconds(0.1, 0.1)]}))
    assert [line.rsplit("|", 2)[1].strip() for line in found] == ["", "held", "MISSED", "held"]
    assert "| 2.0% |" in found[-1]
