"""InferSent: its encoder by hand and as a loop, labels, a frozen value, and that a few hundred pairs teach it."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from cse_train import checkpoint
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.packing import pack_lists
from cse_train.export.export import export
from cse_train.fields import ConfigError
from cse_train.methods import infersent
from cse_train.text.file_corpora import NLI_LABELS
from cse_train.text.generated import make_graded_pairs, sentences
from cse_train.training.loop import train
from tests.cse_train.methods.parts import parts_of

ROWS = np.arange(8)


@pytest.fixture
def parts(tiny_settings, labelled_file: Path):
    """Options -> (model in training mode, a batch of 8, its store, its tokenizer)."""

    def make(**options: object):
        return parts_of(tiny_settings("infersent"), labelled_file, ROWS, dropout=None, **options)[1:]

    return make


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def states(lstm: torch.nn.LSTM, words: list[list[float]], suffix: str) -> list[list[float]]:
    """h_t of one direction: i, f, o = sigmoid and g = tanh of W x + U h + b; c = f c + i g; h = o tanh(c)."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    weights = [getattr(lstm, f"{name}_l0{suffix}").tolist() for name in names]
    units, h, c, made = lstm.hidden_size, [0.0] * lstm.hidden_size, [0.0] * lstm.hidden_size, []
    for x in words:
        gates = [
            sum(w * v for w, v in zip(of_x, x, strict=True)) + sum(w * v for w, v in zip(of_h, h, strict=True)) + a + b
            for of_x, of_h, a, b in zip(*weights, strict=True)
        ]
        i, f, g, o = (gates[k * units : (k + 1) * units] for k in range(4))
        c = [sigmoid(f[u]) * c[u] + sigmoid(i[u]) * math.tanh(g[u]) for u in range(units)]
        h = [sigmoid(o[u]) * math.tanh(c[u]) for u in range(units)]
        made.append(h)
    return made


def embedding(model: infersent.InferSent, ids: np.ndarray) -> list[float]:
    """A sentence alone, without torch's LSTM."""
    table = model.encoder.vectors_VD
    words = [table[i].tolist() for i in ids.tolist() if i < len(table)]
    forward, backward = states(model.lstm, words, ""), states(model.lstm, words[::-1], "_reverse")[::-1]
    over_words = list(zip(*(a + b for a, b in zip(forward, backward, strict=True)), strict=True))
    return [max(of_unit) if model.config.pooling == "max" else sum(of_unit) / len(words) for of_unit in over_words]


@pytest.mark.parametrize("pooling", ["max", "mean"])
def test_an_embedding_is_a_loop_over_words_and_units(parts, pooling: str) -> None:
    model, _, store, _ = parts(pooling=pooling, units=3)
    ids = [store.column("sent0").row(i) for i in ROWS]
    assert any((row >= len(model.encoder.vectors_VD)).any() for row in ids), "the last word of every line is unknown"
    with torch.no_grad():
        together = model.encode(pack_lists(ids))
    np.testing.assert_allclose(together.numpy(), [embedding(model, row) for row in ids], atol=1e-6)


def test_an_embedding_by_hand(parts) -> None:
    """One unit that reads a vector's first number x by a weight of 1 in g; all other weights and the biases are 0.

    Then i = f = o = 1/2, g = tanh(x), c_t = (c_{t-1} + g_t) / 2, h_t = tanh(c_t) / 2.
    """
    model, _, _, _ = parts(units=1)
    with torch.no_grad():
        for parameter in model.lstm.parameters():
            parameter.zero_()
        for name in ("weight_ih_l0", "weight_ih_l0_reverse"):
            getattr(model.lstm, name)[2, 0] = 1.0
        model.encoder.vectors_VD[:3, 0] = torch.tensor([1.0, -2.0, 0.5])
        ((forward, backward),) = model.encode(pack_lists([[0, 1, 2]])).tolist()
    a, b, c = math.tanh(1.0), math.tanh(-2.0), math.tanh(0.5)
    assert forward == pytest.approx(max(math.tanh(v) / 2 for v in (a / 2, a / 4 + b / 2, a / 8 + b / 4 + c / 2)))
    assert backward == pytest.approx(max(math.tanh(v) / 2 for v in (c / 2, c / 4 + b / 2, c / 8 + b / 4 + a / 2)))


def test_a_word_without_a_vector_is_left_out(parts) -> None:
    model, _, _, tokenizer = parts()
    texts = ["the old river", "the unheard-of old river 17 !", "nothing known", ""]
    with torch.no_grad():
        known, with_others, none, empty = model.encode(pack_lists(tokenizer(texts)["input_ids"]))
    torch.testing.assert_close(known, with_others)
    torch.testing.assert_close(none, empty)
    assert not torch.allclose(known, none)


@pytest.mark.parametrize("activation", ["none", "tanh"])
def test_loss_is_a_loop_over_pairs(parts, activation: str) -> None:
    model, batch, store, _ = parts(activation=activation, units=2, hidden=3)
    layers = [layer for layer in model.classifier if isinstance(layer, torch.nn.Linear)]
    assert [tuple(layer.weight.shape) for layer in layers] == [(3, 16), (3, 3), (3, 3)]
    squash = math.tanh if activation == "tanh" else float
    total, right_ones = 0.0, 0
    for i, label in zip(ROWS, batch.tensors["label_B"].tolist(), strict=True):
        u, v = (embedding(model, store.column(name).row(i)) for name in ("sent0", "sent1"))
        pairs = list(zip(u, v, strict=True))
        values = [*u, *v, *(abs(a - b) for a, b in pairs), *(a * b for a, b in pairs)]
        for layer in layers:
            rows = zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
            values = [sum(w * x for w, x in zip(row, values, strict=True)) + bias for row, bias in rows]
            values = values if layer is layers[-1] else list(map(squash, values))
        total += math.log(sum(map(math.exp, values))) - values[label]
        right_ones += max(values) == values[label]
    output = model(batch)
    assert output.loss.item() == pytest.approx(total / 8, rel=1e-5)
    assert output.metrics["nli_accuracy"].item() == right_ones / 8


def test_an_indifferent_classifier_costs_the_logarithm_of_three(parts) -> None:
    model, batch, _, _ = parts()
    with torch.no_grad():
        for parameter in model.classifier[-1].parameters():
            parameter.zero_()
    assert model(batch).loss.item() == pytest.approx(math.log(3), abs=1e-6)


def test_frozen_value(parts) -> None:
    """Provenance: tests/cse_train/programs/word_vectors.txt; the loop above agrees; first recorded with torch 2.13."""
    model, batch, _, _ = parts()
    assert model(batch).loss.item() == pytest.approx(FROZEN, abs=1e-5)


FROZEN = 1.0930171


def test_labels_are_told_apart_though_no_vector_has_them(parts) -> None:
    model, batch, _, tokenizer = parts()
    ids = [row[1] for row in tokenizer(list(NLI_LABELS))["input_ids"]]
    assert len(set(ids)) == 3 and min(ids) > len(model.encoder.vectors_VD), "none is <unk>"
    assert set(batch.tensors["label_B"].tolist()) == {0, 1, 2}


def test_a_checkpoint_has_no_word_vectors_and_wants_the_same_file(tiny_settings, parts, tmp_path: Path) -> None:
    model, *_ = parts()
    file = tmp_path / "vectors.txt"
    given = Path(str(tiny_settings("infersent")["train.encoder"]))
    file.write_text(given.read_text())
    run = parse_run(tiny_settings("infersent", train_encoder=str(file)))
    checkpoint.save_best(tmp_path, run, model, {"best": 1.0})
    tensors = checkpoint.read_best(tmp_path)[2]
    assert {name.partition(".")[0] for name in tensors} == {"encoder", "lstm"} and "encoder.vectors_VD" not in tensors
    checkpoint.load_model(tmp_path)
    with pytest.raises(ConfigError, match=r"^not exportable: method=infersent is more than an encoder"):
        export(tmp_path, tmp_path / "exported")
    file.write_text(given.read_text().replace("river", "brook"))
    with pytest.raises(ConfigError, match=r"^other word vectors: train.encoder=.*; put that file there again$"):
        checkpoint.load_model(tmp_path)


def test_a_transformer_is_refused(tiny_encoder: Path) -> None:
    with pytest.raises(ConfigError, match=r"^no word vectors: train.encoder=.*; give a text file of .txt or .vec, or"):
        infersent.InferSent.build(infersent.Config(), load_backbone(str(tiny_encoder)))


def test_a_few_hundred_pairs_raise_the_score_of_other_sentences(tmp_path: Path) -> None:
    """Pairs of the seeded grammar, whose words come with random vectors: nothing but the labels says what is alike."""
    words = sorted({word for text in sentences(3000, 5) for word in text.split()} | {"<s>", "</s>"})
    vectors_VD = np.random.default_rng(0).normal(scale=0.5, size=(len(words), 16))
    lines = (f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, vectors_VD.round(3), strict=True))
    (tmp_path / "vectors.txt").write_text("".join(lines))
    with (tmp_path / "pairs.csv").open("w", newline="") as file:
        rows = zip(*make_graded_pairs(600, 11), strict=True)
        labelled = ((a, b, NLI_LABELS[2 - int(grade) // 2]) for a, b, grade in rows)
        csv.writer(file).writerows([("sent0", "sent1", "label"), *labelled])
    run = parse_run(TAUGHT | {"train.encoder": str(tmp_path / "vectors.txt")})
    outcome = train(run, DataPaths(train_file=tmp_path / "pairs.csv"), tmp_path / "run", lambda point: False)
    first, *_, last = (point.metrics for point in outcome.points)
    assert last["nli_accuracy"] > first["nli_accuracy"] + 0.1
    assert outcome.best > first["generated_dev:200"] + 5


TAUGHT = {
    "method": "infersent",
    "train.corpus": "file",
    "train.dev": "generated_dev:200",
    "train.learning_rate": 1e-2,
    "train.schedule": "constant",
    "train.batch_size": 64,
    "train.examples": 3072,
    "train.evaluations": 4,
    "method.units": 32,
    "method.hidden": 32,
}
