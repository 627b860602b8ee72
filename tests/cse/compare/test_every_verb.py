"""Every verb says the same numbers as text, as JSON of its schema, and as a function of `import cse`."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

import cse
from analysis.documents import JSON_VERSION
from cse.cli.extend.schema import commands_with_json
from tests.commands import printed, refused
from tests.cse.compare.models import A, B, Capture, Names
from tests.documents import validated

ELSEWHERE = {
    "eval": "tests/cse/cli/models/test_eval.py",
    "doctor": "tests/cse/doctor/test_checks.py",
    "data": "tests/cse/downloads/test_data.py",
    "ablate": "tests/cse/cli/sweeps/test_ablate.py",
    "confirm": "tests/cse/compare/test_confirm.py",
}
Facts = Mapping[str, Any]


def of_cells(facts: Facts) -> list[float]:
    return [number for row in facts["rows"] for cell in row["cells"].values() if (number := cell["mean"]) is not None]


def of_columns(facts: Facts) -> list[float]:
    return [abs(number) for column in facts["columns"] for number in (column["difference"], *column["interval"])]


VERBS: Mapping[str, tuple[Sequence[str], Callable[[], Any], Callable[[Facts], Sequence[float | int]]]] = {
    "plan": (("E7", "--seeds", "3"), lambda: cse.plan("E7", seeds=3), lambda facts: [facts["runs"], facts["to_run"]]),
    "table": (("E7",), lambda: cse.table("E7"), of_cells),
    "best": (("E7",), lambda: cse.best("E7"), lambda f: [f["pick"]["value"], *(c["mean"] for c in f["cells"])]),
    "explain": (
        ("E7", "--cell", "dup_rate=0.24"),
        lambda: cse.explain("E7", "dup_rate=0.24"),
        lambda facts: [facts["columns"]["sts_dev"]["mean"], *(run["values"]["sts_dev"] for run in facts["runs"])],
    ),
    "ls": ((), lambda: cse.ls(), lambda facts: [facts["rows"][0]["runs"]]),
    "trials": (("E7",), lambda: cse.trials("E7"), lambda facts: [row["best"] for row in facts["rows"]]),
    "status": (("E7",), lambda: cse.status("E7"), lambda facts: [facts["rows"][0]["best"]]),
    "compare": ((A, B, "--column", "sts_dev"), lambda: cse.compare(A, B, column=["sts_dev"]), of_columns),
    "gate": ((A, "--against", B), lambda: cse.gate(A, B), of_columns),
}
"""Verb -> its words, the same as a function, and numbers of its JSON that its text has."""


def test_every_verb_with_json_is_tried() -> None:
    assert {*VERBS, *ELSEWHERE} >= {*commands_with_json()}, "a side may be taken off"


@pytest.mark.parametrize("verb", VERBS)
def test_text_json_and_python_give_the_same_numbers(capsys: Capture, two: Names, verb: str) -> None:
    words, call, numbers = VERBS[verb]
    printed(capsys, verb, *words)  # a gate's second asking says that it was seen
    text = printed(capsys, verb, *words)
    document = validated(verb, printed(capsys, verb, *words, "--format", "json"))
    assert document["version"] == JSON_VERSION
    answer = call()
    assert as_plain(answer) == without_clock(document)
    told = numbers(document)
    assert told and all(str(n) in text or f"{n:.2f}" in text for n in told), (told, text)
    assert str(answer).split() == text.split()
    if hasattr(answer, "to_frame"):
        assert len(answer.to_frame()) and "<table" in answer._repr_html_()


def as_plain(answer: Any) -> Any:
    facts = answer.as_dict() if hasattr(answer, "as_dict") else answer.data
    return without_clock(json.loads(json.dumps({"version": JSON_VERSION, **facts})))


def without_clock(document: Any) -> Any:
    """Without what another moment says otherwise."""
    rows = document.get("rows") or ()
    return {**document, "rows": [{**row, "seconds_left": None} if "seconds_left" in row else row for row in rows]}


def test_a_frame_has_the_numbers_of_the_comparison(two: Names) -> None:
    (line,) = cse.gate(A, B).to_frame().to_dict("records")
    kept = {name: line[name] for name in ("column", "word", "difference", "common", "A mean", "B mean")}
    assert kept == {
        "column": "sts_dev", "word": "better", "difference": 3.0, "common": 3, "A mean": 64.0, "B mean": 61.0
    }  # fmt: skip
    assert line["low"] == pytest.approx(3 - 4.302653 / 3**0.5, abs=1e-6)


def test_the_command_is_a_function_although_a_folder_has_its_name() -> None:
    import cse.compare.comparison

    assert callable(cse.compare) and cse.compare.__name__ == "compare"


def test_a_schema_is_printed_and_an_unknown_version_is_refused(capsys: Capture) -> None:
    assert json.loads(printed(capsys, "schema", "gate"))["properties"]["version"] == {"const": JSON_VERSION}
    unknown = refused(capsys, "schema", "gate", "--version", "7")
    assert unknown.startswith("cse: unknown schema version: version=7, this cse-search prints 1; adapt the program")
    assert refused(capsys, "schema", "gats").startswith("cse: no JSON: command=gats has no --format json; did you mean")
