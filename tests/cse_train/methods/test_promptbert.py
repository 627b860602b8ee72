"""PromptBERT's own promises: the vector of [MASK] in a template, and what is subtracted from it."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertForMaskedLM

from cse_train import checkpoint
from cse_train.config import parse_run
from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.packing import pack_lists
from cse_train.export.export import export
from cse_train.fields import ConfigError
from cse_train.methods import promptbert
from cse_train.methods.options.promptbert import Config
from cse_train.text.templates import Template, read_template
from tests.cse_train.methods.parts import parts_of

ROWS = np.arange(6)
TEXTS = ["the river runs", "an old stone bridge in the town near the garden", "light", "glass in winter"]


@pytest.fixture
def parts(tiny_settings, text_file: Path):
    """Options -> (model in training mode without dropout, a batch of 6, its store)."""

    def make(dropout: float = 0.0, **options: object):
        return parts_of(tiny_settings("promptbert"), text_file, ROWS, dropout, **options)[1:]

    return make


@pytest.fixture
def bert(tiny_encoder: Path):
    return BertForMaskedLM.from_pretrained(tiny_encoder, attn_implementation="eager").eval().bert


def of_mask(bert, tokenizer, text: str, template: str, denoised: bool = True) -> torch.Tensor:
    """transformers' vector of [MASK] in the template as one text, less that of the template alone."""

    def vector(ids: list[int], positions: list[int]) -> torch.Tensor:
        with torch.no_grad():
            states = bert(torch.tensor([ids]), position_ids=torch.tensor([positions])).last_hidden_state[0]
        return states[ids.index(tokenizer.mask_token_id)]

    whole, bare = (tokenizer(template.replace("[X]", sentence))["input_ids"] for sentence in (text, ""))
    before = len(tokenizer(template.split("[X]")[0])["input_ids"]) - 1
    gap = len(whole) - len(bare)
    places = [place + gap * (place >= before) for place in range(len(bare))]
    own = vector(whole, list(range(len(whole))))
    return own - vector(bare, places) if denoised else own


def test_the_template_by_hand() -> None:
    template = Template((2, 7), (8, 4, 3), mask_id=4)
    assert template.around(np.array([2, 50, 51, 3])).tolist() == [2, 7, 50, 51, 8, 4, 3]
    assert template.around(np.array([2, 50, 51, 3]), 1).tolist() == [2, 7, 50, 8, 4, 3]
    assert template.mask_at(7) == 5 and Template((2, 4), (8, 3), mask_id=4).mask_at(9) == 1
    alone = promptbert.template_alone(template, torch.tensor([2, 0]))
    assert alone.ids_T.tolist() == [2, 7, 8, 4, 3] * 2
    assert alone.positions_T.tolist() == [0, 1, 4, 5, 6, 0, 1, 2, 3, 4]


def test_the_loss_by_hand(parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """h - h^: views (1, 0), (0, 1) and (3, 0), (0, 5): cosines 1 and 0, so the loss is log(1 + e^(-1 / tau))."""
    model, batch, _, _ = parts(projector="none", temperature=0.5)
    own = iter([torch.tensor([[3.0, 1.0], [2.0, 2.0]]), torch.tensor([[5.0, 1.0], [2.0, 6.0]])])
    bare = torch.tensor([[2.0, 1.0]])
    for name in batch.inputs:
        batch.inputs[name] = pack_lists([[2, 7, 9, 3]] * 2)
    filled = {id(pack) for pack in batch.inputs.values()}
    monkeypatch.setattr(model, "_read_mask", lambda packed, _: next(own) if id(packed) in filled else bare)
    assert model(batch).loss.item() == pytest.approx(math.log(1 + math.exp(-2)), abs=1e-6)


def test_the_loss_equals_transformers_sentence_by_sentence(parts, bert) -> None:
    model, batch, store, tokenizer = parts(projector="none")
    texts = [tokenizer.decode(store.column("text").row(i), skip_special_tokens=True) for i in ROWS]
    config = Config()
    views = [
        [of_mask(bert, tokenizer, t, template) for t in texts] for template in (config.template, config.second_template)
    ]
    total = 0.0
    for i, anchor in enumerate(views[0]):
        powers = [math.exp(float(torch.cosine_similarity(anchor, other, dim=0)) / 0.05) for other in views[1]]
        total -= math.log(powers[i] / sum(powers))
    assert model(batch).loss.item() == pytest.approx(total / len(ROWS), rel=1e-4)


@pytest.mark.parametrize("denoising", ["training", "always", "none"])
def test_the_embedding_is_transformers_vector_of_the_mask(parts, bert, denoising: str) -> None:
    model, _, _, tokenizer = parts(denoising=denoising)
    with torch.no_grad():
        ours = model.eval().encode(pack_lists(tokenizer(TEXTS)["input_ids"]))
    theirs = [of_mask(bert, tokenizer, text, Config().template, denoising == "always") for text in TEXTS]
    torch.testing.assert_close(ours, torch.stack(theirs), atol=2e-5, rtol=0)


def test_frozen_value(parts) -> None:
    """Provenance: the tiny encoder of these tests; transformers agrees without the projector; torch 2.13."""
    model, batch, _, _ = parts()
    assert model(batch).loss.item() == pytest.approx(FROZEN, rel=1e-3)


FROZEN = 9.78316e-05


def test_one_template_leaves_dropout_as_the_difference_of_the_views(parts) -> None:
    same = {"second_template": Config().template}
    model, batch, _, _ = parts(**same)
    assert model(batch).metrics["positive_cosine"].item() == pytest.approx(1.0, abs=1e-5)
    model, batch, _, _ = parts(dropout=0.1, **same)
    assert model(batch).metrics["positive_cosine"].item() < 0.999


def test_a_sentence_that_holds_a_mask_and_one_that_is_too_long(parts) -> None:
    model, _, _, tokenizer = parts()
    ids = tokenizer(["the [MASK] runs", "light " * 100])["input_ids"]
    with torch.no_grad():
        vectors = model.eval().encode(pack_lists([row[:64] for row in ids]))
        alone = model.encode(pack_lists([ids[0]]))
    assert torch.isfinite(vectors).all()
    torch.testing.assert_close(vectors[:1], alone, atol=1e-5, rtol=0)


@pytest.mark.parametrize("text", ["This means [MASK].", '"[X]"', '"[X]" and "[X]" mean [MASK].'])
def test_a_template_without_its_two_places_is_one_line(parts, text: str) -> None:
    _, _, _, tokenizer = parts()
    with pytest.raises(ConfigError) as told:
        read_template("method.template", text, tokenizer)
    assert told.value.problems == [f"wrong template: method.template={text}; give one [X] and one [MASK]"]


def test_export_refuses_what_would_lose_its_template(tiny_settings, tmp_path: Path) -> None:
    run = parse_run(tiny_settings("promptbert"))
    checkpoint.save_best(
        tmp_path / "run", run, promptbert.PromptBERT.build(run.options, load_backbone(run.train.encoder)), {}
    )
    with pytest.raises(
        ConfigError, match=r"^not exportable: method=promptbert is more than an encoder, a pooler and a linear map"
    ):
        export(tmp_path / "run", tmp_path / "out", "hf")


def test_a_template_that_leaves_no_room_is_one_line(parts) -> None:
    with pytest.raises(ConfigError, match=r"^template overflows positions: .* leaves \d+ tokens and the longest"):
        parts(template="word " * 50 + "[X] [MASK]")
