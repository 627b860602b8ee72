"""A user's own files in plans: their content is a run's identity, their place and format are not."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from analysis.ledger import Ledger
from cluster.plan.planner import plan
from cluster.runtime.storage import inputs_of
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError
from search_spaces.cells import resolve
from search_spaces.identity.signature import identity, signature
from search_spaces.identity.user_files import add_user_files, describe_files
from search_spaces.parse import parse_file
from search_spaces.space import Space

ROWS = [{"sentence1": f"a river {i}", "sentence2": f"a bridge {i * 7}", "score": i % 5} for i in range(20)]
TEXTS = [{"body": f"the stone by river {i} is old"} for i in range(40)]
SPACE = {
    "version": 1,
    "id": "mine",
    "method": "simcse",
    "seeds": 1,
    "dev": {"file": "dev.tsv", "name": "shop_dev"},
    "corpus": {"file": "texts.jsonl", "columns": {"text": "body"}},
    "space": {"train.learning_rate": {"grid": [1e-4]}},
}


def written(folder: Path, raw: Mapping[str, Any] = SPACE, rows: Any = None) -> Space:
    folder.mkdir(exist_ok=True)
    pd.DataFrame(rows or ROWS).to_csv(folder / "dev.tsv", sep="\t", index=False)
    pd.DataFrame(TEXTS).to_json(folder / "texts.jsonl", orient="records", lines=True)
    (folder / "mine.yaml").write_text(yaml.safe_dump(dict(raw)), encoding="utf8")
    return parse_file(folder / "mine.yaml")


def signatures(space: Space, **overrides: Any) -> list[str]:
    made = plan([space], None, None, None, DataPaths(), overrides=overrides)
    assert not made.spaces[0].incomplete, made.spaces[0].incomplete
    return [run.signature for run in made.spaces[0].runs]


def test_files_become_names_and_lie_beside_the_space(tmp_path: Path) -> None:
    space = written(tmp_path / "a")
    assert space.settings == {"train.dev": "shop_dev", "train.corpus": "texts"}
    assert [(file.name, file.role, file.file) for file in space.files] == [
        ("shop_dev", "dev", str(tmp_path / "a/dev.tsv")),
        ("texts", "corpus", str(tmp_path / "a/texts.jsonl")),
    ]
    assert space.files == parse_file(tmp_path / "a/mine.yaml").files


def test_the_content_counts_and_not_the_path_the_name_or_the_format(tmp_path: Path) -> None:
    first = signatures(written(tmp_path / "a"))
    assert signatures(written(tmp_path / "b")) == first
    pd.DataFrame([{"id": i, "left": r["sentence1"], "right": r["sentence2"], "n": r["score"]} for i, r in
                  enumerate(ROWS)]).to_parquet(tmp_path / "b/other.parquet")  # fmt: skip
    columns = {"sentence1": "left", "sentence2": "right", "rating": "n"}
    moved = {**SPACE, "dev": {"file": "other.parquet", "columns": columns}}
    assert signatures(written(tmp_path / "b", moved)) == first
    edited = [{**row, "score": row["score"] + (i == 3)} for i, row in enumerate(ROWS)]
    assert signatures(written(tmp_path / "c", rows=edited)) != first


def test_the_command_line_names_files_as_the_space_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = signatures(written(tmp_path / "a"))
    edited = [{**row, "score": -row["score"]} for row in ROWS]
    space = written(tmp_path / "b", {k: v for k, v in SPACE.items() if k != "dev"}, edited)
    given = {"train.dev": "a/dev.tsv"}
    assert signatures(space, **given) == first
    assert signatures(space, **{"train.dev": {"file": "a/dev.tsv", "name": "x"}}) == first
    resolved = resolve(space, None, given)
    assert resolved.overrides == {"train.dev": "dev"}
    assert resolved.given() == {"train.dev": str(tmp_path / "a/dev.tsv")}
    again = resolve(space, None, resolve(space, None, {"train.dev": {"file": "a/dev.tsv", "name": "x"}}).given())
    assert [file.name for file in again.files] == ["texts", "x"]


def test_corpora_may_be_an_axis(tmp_path: Path) -> None:
    axis = {"train.corpus": {"grid": ["texts.txt", {"file": "texts.jsonl", "name": "more"}, "generated"]}}
    raw = {**{k: v for k, v in SPACE.items() if k != "corpus"}, "space": axis}
    (tmp_path / "texts.txt").write_text("".join(f"a stone {i}\n" for i in range(40)), encoding="utf8")
    space = written(tmp_path, raw)
    assert [cell.key for cell in resolve(space).cells()] == [
        {"train.corpus": n} for n in ("texts", "more", "generated")
    ]
    assert len(set(signatures(space))) == 3


def test_a_run_without_files_of_its_own_keeps_its_signature() -> None:
    run = parse_run({"method": "simcse", "train.dev": "generated_dev:20", "train.corpus": "generated"})
    assert signature(run, identity(run, DataPaths())) == signature(
        run, identity(run, add_user_files(DataPaths(cache=Path("/elsewhere")), ()))
    )


def test_files_travel_with_the_other_inputs_and_nodes_are_asked_for_them(tmp_path: Path) -> None:
    paths = add_user_files(DataPaths(), written(tmp_path).files)
    assert inputs_of(paths) == [tmp_path / "dev.tsv", tmp_path / "texts.jsonl"]
    assert describe_files(paths) == [
        f"dev shop_dev: 20 rated pairs of {tmp_path}/dev.tsv (sentence1=sentence1, sentence2=sentence2, rating=score)",
        f"corpus texts: text of {tmp_path}/texts.jsonl (text=body); 40 rows; words: median 7, 99% up to 7, longest 7",
    ]


def test_columns_that_are_not_read_are_named(tmp_path: Path) -> None:
    """A key that the first object lacks counts too."""
    rows = [{**row, "negative_1": "a lamp", "negative_2": "a stone"} for row in ROWS]
    space = written(tmp_path, {**SPACE, "corpus": "dev.jsonl", "dev": "dev.tsv"}, rows)
    first, *others = rows
    objects = [{key: first[key] for key in ("sentence1", "sentence2")}, *others]
    pd.DataFrame(objects).to_json(tmp_path / "dev.jsonl", orient="records", lines=True)
    content = (tmp_path / "dev.jsonl").read_text(encoding="utf8").replace(',"score":null,"negative_1":null', "")
    (tmp_path / "dev.jsonl").write_text(content.replace(',"negative_2":null', ""), encoding="utf8")
    dev, corpus = describe_files(add_user_files(DataPaths(), space.files))
    assert dev.endswith("(sentence1=sentence1, sentence2=sentence2, rating=score); not read: negative_1, negative_2")
    assert "(sent0=sentence1, sent1=sentence2); not read: score, negative_1, negative_2; 20 rows" in corpus


@pytest.mark.parametrize(
    ("objective", "columns", "line"),
    [
        (
            "triplets",
            ["anchor", "positive", "negative_1", "negative_2"],
            "wrong columns: train.corpus=t has sent0, sent1; ",
        ),
        ("pairs", ["text"], "wrong columns: train.corpus=t has text; method=simcse reads sent0, sent1 with these"),
        (
            "unsupervised",
            ["anchor", "positive"],
            "wrong columns: train.corpus=t has sent0, sent1; method=simcse reads text",
        ),
        ("pairs", ["premise", "hypothesis", "label"], "labels unread: train.corpus=t has label"),
        ("triplets", ["anchor", "positive", "negative"], ""),
    ],
)
def test_columns_that_an_objective_needs_are_missing_inputs_of_a_plan(
    objective: str, columns: list[str], line: str, tmp_path: Path
) -> None:
    space = written(tmp_path, {**SPACE, "corpus": "t.jsonl", "set": {"method.objective": objective}})
    rows = [{name: "neutral" if name == "label" else f"a {name} {i}" for name in columns} for i in range(40)]
    pd.DataFrame(rows).to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    made = plan([space], None, None, None, DataPaths())
    reasons = [reason for cell in made.spaces[0].incomplete for reason in cell.reasons]
    assert len(reasons) == bool(line) and all(reason.startswith(line) for reason in reasons)


def test_two_spaces_may_share_a_file_but_no_name_of_two(tmp_path: Path) -> None:
    first, second = written(tmp_path / "a"), written(tmp_path / "b")
    plan([first, first], None, None, None, DataPaths())
    with pytest.raises(ConfigError, match="two sets of one name: name=shop_dev is "):
        plan([first, second], None, None, None, DataPaths())


def test_a_missing_file_is_a_missing_input_even_where_no_data_are_given(tmp_path: Path) -> None:
    space = written(tmp_path, {**SPACE, "evaluate": ["away.csv", "sts_test"]})
    (tmp_path / "dev.tsv").unlink()
    made = plan([space], None, None, Ledger.open(tmp_path / "l.db", create=True), DataPaths())
    (cell,) = made.spaces[0].incomplete
    assert cell.reasons == (f"missing file: shop_dev needs {tmp_path}/dev.tsv; put it there, or correct `file:`",)
    assert list(made.unscorable) == ["away"]
