"""A signature changes with everything that changes a result, and with nothing else; later fields included."""

import dataclasses
import gzip
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from analysis.ledger import Ledger
from cse_train import config, methods
from cse_train.config import complete, effective, parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.folders import earlier_hash, find_weights
from cse_train.encoder.identity import backbone_identity, generator_hash
from cse_train.fields import Added, ConfigError, hints
from cse_train.plugins import config as plugin_config
from cse_train.plugins.config import read_first
from search_spaces.catalog import catalog, find_folder, load_space
from search_spaces.cells import Cell, ResolvedSpace, resolve
from search_spaces.identity import signature as module
from search_spaces.identity.signature import describe_signature, identity, signature
from tests.commands import printed
from tests.cse_train import encoders

LATER = ("train.adamw", "train.optimiser", "method.mlm_decoder", "method.lower_case", "method.edits")
INPUTS = {"encoder": "e", "tokenizer": "t", "corpus": "c", "dev": "d"}


def run_of(**changed):
    return parse_run({"method": "esimcse", **{k.replace("__", "."): v for k, v in changed.items()}})


def sign(run, **inputs):
    return signature(run, {**INPUTS, **inputs})


def test_every_field_counts_except_those_named_by_hash():
    base = run_of()
    other = {bool: lambda v: not v, int: lambda v: v + 2, float: lambda v: v * 0.5, str: lambda v: v + "x"}
    for part in ("train", "options"):
        config = getattr(base, part)
        for name in hints(type(config)):
            value = getattr(config, name)
            changed = 0.5 if value is None else other[type(value)](value) if value else 0.25
            run = dataclasses.replace(base, **{part: dataclasses.replace(config, **{name: changed})})
            by_hash = part == "train" and name in module.NAMED_BY_HASH
            assert (sign(run) == sign(base)) == by_hash, name


def test_signatures_of_many_seeds_are_those_of_each():
    of_seed = module.seed_signature(run_of(), INPUTS)
    for seed in range(0, 30, 7):
        assert of_seed(seed) == sign(run_of(train__seed=seed))


@pytest.mark.parametrize("name", sorted(INPUTS))
def test_every_input_hash_counts(name):
    assert sign(run_of(), **{name: "other"}) != sign(run_of())


def test_method_version_rules_and_protocol_count(monkeypatch):
    base = sign(run_of())
    assert signature(parse_run({"method": "simcse"}), INPUTS) != base
    with monkeypatch.context() as patch:
        patch.setattr(methods.config_class("esimcse"), "VERSION", 99)
        assert sign(run_of()) != base
    with monkeypatch.context() as patch:
        patch.setitem(module.SIGNED_RULES, "best", "last")
        assert sign(run_of()) != base
    monkeypatch.setattr(module, "PROTOCOL", {"code_version": "99"})
    assert sign(run_of()) != base


def test_spelling_and_order_do_not_count():
    a = run_of(train__learning_rate=1e-4, method__queue_multiple=1, train__weight_decay=0, method__dup_rate=0.3)
    b = run_of(method__dup_rate=0.30, train__weight_decay=0.0, method__queue_multiple=1.0, train__learning_rate=0.0001)
    assert sign(a) == sign(b)
    raw = dataclasses.replace(a, options=dataclasses.replace(a.options, queue_multiple=1))
    assert sign(raw) == sign(a), "an int in a float field"
    assert signature(a, dict(reversed(INPUTS.items()))) == sign(a)
    assert json.loads(json.dumps(describe_signature(a, INPUTS))) == describe_signature(a, INPUTS)


def write_encoder(folder: Path, weight: float = 0.0) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "bert"}')
    save_file({"w": np.full(2, weight, np.float32)}, folder / "model.safetensors")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(find_weights() / "tokenizer" / name, folder / name)
    return folder


def inputs_of(folder: Path, text: str, encoder: Path, **changed):
    folder.mkdir(exist_ok=True)
    (folder / "corpus.txt").write_text(text)
    run = run_of(train__encoder=str(encoder), train__corpus="file", train__dev="generated_dev:20", **changed)
    return run, identity(run, DataPaths(train_file=folder / "corpus.txt"))


def test_paths_do_not_count_and_contents_do(tmp_path):
    first, second = write_encoder(tmp_path / "one"), write_encoder(tmp_path / "two")
    a = signature(*inputs_of(tmp_path / "a", "x\ny\n", first))
    assert signature(*inputs_of(tmp_path / "b", "x\ny\n", second)) == a
    assert signature(*inputs_of(tmp_path / "c", "x\nz\n", first)) != a
    assert signature(*inputs_of(tmp_path / "d", "x\ny\n", write_encoder(tmp_path / "three", weight=1.0))) != a


def test_workers_count_only_for_a_rank_dependent_option(tmp_path):
    encoder = write_encoder(tmp_path / "one")
    run, shared = inputs_of(tmp_path / "a", "x\n", encoder)
    paths = DataPaths(train_file=tmp_path / "a" / "corpus.txt")
    assert identity(run, paths, workers=2) == shared
    local, _ = inputs_of(tmp_path / "a", "x\n", encoder, method__queue_scope="local")
    assert identity(local, paths, workers=1) != identity(local, paths, workers=2)


def test_missing_inputs_are_the_users_mistake(tmp_path):
    with pytest.raises(ConfigError):
        identity(run_of(train__encoder=str(write_encoder(tmp_path / "e")), train__corpus="file"), DataPaths())


def test_a_corpus_is_read_once_for_a_thousand_signatures(tmp_path, monkeypatch):
    run, _ = inputs_of(tmp_path / "a", "x\n", write_encoder(tmp_path / "e"))
    paths = DataPaths(train_file=tmp_path / "a" / "corpus.txt")
    monkeypatch.setattr(module, "open_source", lambda *given: pytest.fail("read again"))
    seen = set()
    for seed in range(1000):
        seeded = dataclasses.replace(run, train=dataclasses.replace(run.train, seed=seed))
        seen.add(signature(seeded, identity(seeded, paths)))
    assert len(seen) == 1000


OF_0_1_0 = [
    ("a5aa5dd8dd88cff6dde532fa", {"method": "simcse"}),
    ("20f07099921ea136a0843507", {"method": "esimcse"}),
    ("5bbcc7a900c0f071ee05c456", {"method": "dcpcse"}),
    ("64e3ec183bcc47e7ace14c65", {"method": "dcpcse", "method.mlm_weight": 0.1, "method.mlm_decoder": "tied"}),
    ("21a61cb52d32362a812a9412", {"method": "d2cse"}),
    ("e9c0932038667ca34f274952", {"method": "diffcse", "method.task": "none"}),
    ("fabe43bc7d30024562d19cfc", {"method": "declutr", "method.objective": "contrastive", "method.lower_case": False}),
]
"""What version 0.1.0 (commit 6af7419) computed, and what names its behaviour today, beside torch's AdamW."""
MOVED = [
    ("23e0b951efd895c750a5ef4e", {"method": "simcse", "method.mlm_weight": 0.1, "method.mlm_decoder": "tied"}),
    ("442ffd7ffabf4ee50717e242", {"method": "declutr", "method.lower_case": False}),
    ("4292b0a80c8428b7bc658cf4", {"method": "diffcse"}),
    ("809000478bab28d6cb26ec94", {"method": "d2cse", "method.framework": "b"}),
]
"""The same, of runs in which [PAD] trained."""


@pytest.mark.parametrize(("before", "settings"), OF_0_1_0)
def test_what_names_the_old_behaviour_keeps_its_signature(before: str, settings: dict[str, object]) -> None:
    named = parse_run({**settings, "train.adamw": "torch"})
    assert sign(named) == before
    stored = {key: value for key, value in named.flat().items() if key not in LATER}
    assert sign(parse_run(complete(stored))) == before
    for name in ("transformers", "uncorrected"):
        assert sign(parse_run({**settings, "train.adamw": name})) != before


@pytest.mark.parametrize(("before", "settings"), MOVED)
def test_what_no_option_brings_back_is_not_reused(before: str, settings: dict[str, object]) -> None:
    assert sign(parse_run({**settings, "train.adamw": "torch"})) != before


def test_a_decoder_counts_only_beside_its_loss() -> None:
    free, tied = ({"method": "simcse", "method.mlm_decoder": name} for name in ("released", "tied"))
    assert sign(parse_run(free)) == sign(parse_run(tied))
    free, tied = ({**settings, "method.mlm_weight": 0.1} for settings in (free, tied))
    assert sign(parse_run(free)) != sign(parse_run(tied))


def test_an_option_that_came_later_counts_only_where_it_is_used() -> None:
    """Runs of before keep their signatures."""
    base = parse_run({"method": "diffcse"})
    assert "edits" not in describe_signature(base, INPUTS)["options"]
    assert sign(base) != sign(parse_run({"method": "diffcse", "method.edits": "stored"}))


def test_epochs_count_with_the_corpus_that_they_pass_over(tmp_path: Path) -> None:
    """The number that they come to is an input; a run whose length is a count has none and keeps its signature."""
    encoder = write_encoder(tmp_path / "e")
    run, count = inputs_of(tmp_path / "a", "x\ny\nz\n", encoder, train__examples=9)
    assert "examples" not in count and module.examples_in(run, count) == 9
    run, epochs = inputs_of(tmp_path / "a", "x\ny\nz\n", encoder, train__examples="3 epochs")
    assert epochs == {**count, "examples": 9} and module.examples_in(run, epochs) == 9
    longer, more = inputs_of(tmp_path / "b", "x\ny\nz\nw\n", encoder, train__examples="3 epochs")
    assert module.examples_in(longer, more) == 12 and signature(longer, more) != signature(run, epochs)


@pytest.mark.parametrize(
    ("corpus", "examples"), [("pairs:qqp", 402_000), ("pairs:paranmt_sample", 402_000), ("pairs:mine", None)]
)
def test_epochs_over_a_corpus_that_is_absent_come_to_what_papers_print(corpus: str, examples: int | None) -> None:
    run = parse_run({"method": "simcse", "train.corpus": corpus, "train.examples": "3 epochs"})
    assert module.examples_in(run, identity(run, DataPaths(), absent={})) == examples


def test_what_a_device_decides_is_a_signature_of_its_own():
    """fp32's and bf16's are those of before there was any other."""
    asked = ("fp32", "bf16", "auto", "tf32", "fp16")
    signed = [signature(parse_run({"method": "simcse", "train.precision": value}), INPUTS) for value in asked]
    assert signed[:2] == ["8e0badf1db657fcb24c4284d", "034d73749b7146eaa12ab00c"] and len(set(signed)) == 5


@pytest.mark.parametrize("method", ["diffcse", "d2cse"])
def test_where_the_generator_is_not_at_hand_an_encoder_with_a_head_is_told_to_serve(method: str) -> None:
    given = {"train.corpus": "generated", "train.dev": "generated_dev:20", "method.generator": "nobody/has-this"}
    for encoder, told in (("words-l2-h128", True), ("nobody/has-that", False)):
        absent = dict[str, str]()
        identity(parse_run({"method": method, **given, "train.encoder": encoder}), DataPaths(), absent=absent)
        assert absent["method"].startswith("missing encoder: method.generator=nobody/has-this")
        advice = f"; or set method.generator={encoder}, which has a masked-LM head of its own vocabulary"
        assert absent["method"].endswith(advice) is told


@pytest.mark.parametrize("method", ["diffcse", "d2cse"])
def test_a_generator_of_another_vocabulary_is_a_missing_input_before_the_first_run(method: str, tmp_path: Path) -> None:
    given = {"train.corpus": "generated", "train.dev": "generated_dev:20", "train.encoder": "words-l2-h128"}
    other = str(encoders.write_encoder(tmp_path / "m", "bert", pad_token_id=0))
    for generator, told in ((other, True), ("words-l1-h64", False), ("words-l2-h128", False)):
        run, absent = parse_run({"method": method, **given, "method.generator": generator}), dict[str, str]()
        hashes = identity(run, DataPaths(), absent=absent)
        assert hashes["method.generator"] == generator_hash(generator)
        assert ("method" in absent) is told, absent
        if told:
            assert absent["method"].startswith(f"another vocabulary: method.generator={other} reads other token ids ")
            assert absent["method"].endswith("; set method.generator=words-l2-h128, which has one")
            with pytest.raises(ConfigError, match="^another vocabulary: "):
                identity(run, DataPaths())


def test_a_model_that_was_trained_before_its_encoder_became_ours_is_used_with_that_encoder(tmp_path: Path) -> None:
    folder = encoders.write_encoder(tmp_path / "m", "xlm-roberta", pad_token_id=1)
    today, tokenizer = backbone_identity(str(folder))
    before = earlier_hash(folder)
    assert before is not None and before != today
    for encoder, held in ((today, True), (before, True), ("other", False)):
        assert module.holds_encoder(str(folder), {"encoder": encoder, "tokenizer": tokenizer}) == held
    assert not module.holds_encoder(str(folder), {"encoder": before, "tokenizer": "other"})


TABLES = [name for name, file in sorted(catalog().items()) if file.parent.name == "papers"]
PARTS = ("train", *read_first())
OLD = Path(__file__).parents[2] / "ledger_0_1_0" / "demo.db.gz"


def with_field(shape: Any, name: str, kind: type, default: object) -> Any:
    """A configuration as its class would be with one more field."""
    return dataclasses.make_dataclass(
        shape.__name__, [(name, kind, default)], bases=(shape,), frozen=True, kw_only=True
    )


@pytest.fixture
def add_fields(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Gives TrainConfig and the options of every method one more field each."""

    def add() -> None:
        monkeypatch.setattr(config, "TrainConfig", with_field(config.TrainConfig, "later", int, 3))
        for name in methods.list_methods():
            module = sys.modules[methods.config_class(name).__module__]
            monkeypatch.setattr(module, "Config", with_field(module.Config, "later_option", str, "plain"))

    return add


def cells(space: ResolvedSpace) -> Sequence[Cell]:
    """All cells, and of ranges without an end some that a search may draw."""
    random = np.random.default_rng(0)
    return space.cells() if space.size() is not None else [space.sample(random) for _ in range(40)]


def signatures(table: str) -> list[str]:
    spaces = (resolve(load_space(table), profile) for profile in ("small", "paper"))
    return [signature(cell.run(seed), INPUTS) for space in spaces for cell in cells(space) for seed in (0, 7)]


def test_all_signatures_of_all_tables_stay(add_fields: Callable[[], None]) -> None:
    before = {table: signatures(table) for table in TABLES}
    add_fields()
    assert {"train.later", "method.later_option"} <= parse_run({"method": "simcse"}).flat().keys()
    assert {table: signatures(table) for table in TABLES} == before
    assert len(TABLES) == len(list((find_folder() / "papers").glob("*.yaml"))) >= 45


@pytest.mark.parametrize("method", methods.list_methods())
def test_another_value_counts(add_fields: Callable[[], None], method: str) -> None:
    vectors = {"train.encoder": "glove-6b-50d"} if methods.config_class(method).WORDS else {}
    base = {"method": method, **vectors}
    before = signature(parse_run(base), INPUTS)
    add_fields()
    others = [{"train.later": 4}, {"method.later_option": "bold"}]
    assert signature(parse_run(base), INPUTS) == before
    assert len({before, *(signature(parse_run(base | other), INPUTS) for other in others)}) == 3


def test_a_default_that_changes_later_is_told_from_what_was_done_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ADDED` keeps what runs of before did, so that neither default is taken for the other."""
    before = signature(parse_run({"method": "simcse"}), INPUTS)
    monkeypatch.setattr(config, "TrainConfig", with_field(config.TrainConfig, "later", int, 9))
    monkeypatch.setitem(config.ADDED, "later", Added(3))
    run = parse_run({"method": "simcse"})
    assert describe_signature(run, INPUTS)["train"]["later"] == 9 and signature(run, INPUTS) != before
    assert signature(parse_run({"method": "simcse", "train.later": 3}), INPUTS) == before


def test_an_old_ledger_is_reused_whole(
    add_fields: Callable[[], None], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    with gzip.open(OLD) as packed, (tmp_path / "results" / "ledger.db").open("wb") as ledger:
        shutil.copyfileobj(packed, ledger)
    before = printed(capsys, "table", "demo")
    add_fields()
    runs = Ledger.open(tmp_path / "results" / "ledger.db").runs()
    signatures = [signature(parse_run(complete({"method": run.method, **run.config})), run.identity) for run in runs]
    assert signatures == [run.signature for run in runs] and len(runs) == 12
    assert printed(capsys, "table", "demo") == before and "49.27 ± 1.46" in before


def test_stored_settings_of_before_and_of_today_agree(add_fields: Callable[[], None]) -> None:
    stored = parse_run({"method": "esimcse"}).flat()
    add_fields()
    today = parse_run({"method": "esimcse"}).flat()
    assert effective(today) == effective(stored) and complete(stored) == complete(today)


@pytest.mark.parametrize("part", PARTS)
def test_every_field_that_came_later_is_declared(part: str) -> None:
    """Else nothing would say what runs of before did once the default changes: add it to `ADDED` beside the fields."""
    shape = config.TrainConfig if part == "train" else methods.config_class(part)
    added = config.ADDED if part == "train" else methods.config_class(part).ADDED
    names = {field.name for field in dataclasses.fields(shape)}
    assert set(read_first()[part]) <= names, "a field that a signature holds was renamed or removed"
    assert names - set(read_first()[part]) == set(added)


def test_a_method_of_a_users_own_is_signed_by_all_its_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code's digest tells its versions apart."""
    listed = {part: names for part, names in read_first().items() if part != "simcse"}
    (tmp_path / "fields.json").write_text(json.dumps(listed), encoding="utf8")
    before = signature(parse_run({"method": "simcse"}), INPUTS)
    monkeypatch.setattr(plugin_config, "FIRST_FIELDS", tmp_path / "fields.json")
    module = sys.modules[methods.config_class("simcse").__module__]
    monkeypatch.setattr(module, "Config", with_field(module.Config, "later_option", str, "plain"))
    for cached in (plugin_config.read_first, plugin_config._find_unnamed):
        cached.cache_clear()
    assert signature(parse_run({"method": "simcse"}), INPUTS) != before
    config.note_first_fields()
    read_first.cache_clear()
    assert "later_option" in read_first()["simcse"] and read_first()["esimcse"] == listed["esimcse"]
    for cached in (plugin_config.read_first, plugin_config._find_unnamed):
        cached.cache_clear()
