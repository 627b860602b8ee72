"""Training text by name: files, generated text, sentences, and the texts of an evaluation set without its grades."""

import gzip
import json
import re
from collections import Counter
from pathlib import Path

import datasets
import numpy as np
import pytest
from huggingface_hub import constants

from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import load_pairs
from cse_train.fields import ConfigError
from cse_train.text import files, tables
from cse_train.text.corpora import GENERATED_SENTENCES, open_source
from cse_train.text.generated import AGENTS, DOMAINS, PLACES, SENTENCE_SLOTS, TIME_WORDS, make_graded_pairs, sentences
from cse_train.text.tables import read_sentences


def one_line(error: pytest.ExceptionInfo[ConfigError]) -> str:
    assert len(error.value.problems) == 1
    assert "\n" not in error.value.problems[0]
    return error.value.problems[0]


def write(path: Path, text: str) -> DataPaths:
    path.write_text(text, encoding="utf8")
    return DataPaths(train_file=path)


def test_text_drops_blank_lines_and_keeps_unusual_line_separators(tmp_path: Path) -> None:
    source = open_source("file", write(tmp_path / "a.txt", "one\n\n  \n two\u2028three \r\nfour"))
    assert source.columns == ("text",)
    assert list(source.rows()) == [("one",), ("two\u2028three",), ("four",)]
    assert list(source.rows()) == list(source.rows())


def test_gzipped_text_reads_like_plain_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"one\ntwo\n"))
    assert list(open_source("wiki", DataPaths(wiki=path)).rows()) == [("one",), ("two",)]


def test_T33_csv_is_read_by_position_and_empty_fields_become_a_blank(tmp_path: Path) -> None:
    text = 'premise,entails,contradicts\n"a, ""b""",c,d\ne,,f\ng,h\n\n'
    source = open_source("nli", DataPaths(nli=write(tmp_path / "a.csv", text).train_file))
    assert source.columns == ("sent0", "sent1", "hard_neg")
    assert list(source.rows()) == [('a, "b"', "c", "d"), ("e", " ", "f"), ("g", "h", " ")]


def test_a_labelled_set_is_found_by_name(tmp_path: Path) -> None:
    (tmp_path / "pairs").mkdir()
    write(tmp_path / "pairs" / "qqp.csv", "sent0,sent1\na,b\n")
    paths = DataPaths.from_folder(tmp_path)
    assert list(open_source("pairs:qqp", paths).rows()) == [("a", "b")]
    with pytest.raises(ConfigError) as error:
        open_source("pairs:paranmt", paths)
    assert one_line(error).startswith("missing data: train.corpus=pairs:paranmt needs pairs/paranmt.csv; give --data")


def test_a_third_column_called_label_holds_nli_labels_and_pairs_without_one_are_left_out(tmp_path: Path) -> None:
    text = "premise,hypothesis,label\na,b,entailment\nc,d,-\ne,f,neutral\n"
    source = open_source("file", write(tmp_path / "a.csv", text))
    assert source.columns == ("sent0", "sent1", "label")
    assert list(source.rows()) == [("a", "b", "entailment"), ("e", "f", "neutral")]
    assert open_source("file", write(tmp_path / "b.csv", text.replace("label", "x"))).columns[2] == "hard_neg"
    with pytest.raises(ConfigError, match=r"wrong row: .*c.csv line 2 has label=2; give entailment, neutral") as error:
        list(open_source("file", write(tmp_path / "c.csv", "a,b,label\nc,d,2\n")).rows())
    one_line(error)


def snli(folder: Path, split: str, *rows: tuple[str, str, str]) -> None:
    (folder / "SNLI").mkdir(exist_ok=True)
    for name, column in zip(("s1", "s2", "labels"), zip(*rows, strict=True), strict=True):
        (folder / "SNLI" / f"{name}.{split}").write_text("\n".join(column) + "\n", encoding="utf8")


def test_snli_is_its_training_split_or_else_dev_and_test(tmp_path: Path) -> None:
    paths = DataPaths(senteval=tmp_path)
    with pytest.raises(ConfigError, match=r"^missing data: train.corpus=snli needs SNLI/s1.train, s2.train") as error:
        open_source("snli", paths)
    one_line(error)
    snli(tmp_path, "dev", ("a ", "b", "neutral"), ("c", "d", "-"))
    snli(tmp_path, "test", ("e", "f", "contradiction"))
    two = open_source("snli", paths)
    assert list(two.rows()) == [("a", "b", "neutral"), ("e", "f", "contradiction")]
    snli(tmp_path, "train", ("g", "h", "entailment"))
    source = open_source("snli", paths)
    assert list(source.rows()) == [("g", "h", "entailment")] and source.content_hash != two.content_hash
    (tmp_path / "SNLI" / "s2.train").write_text("h\ni\n", encoding="utf8")
    with pytest.raises(ConfigError, match=r"^lines do not match: .*SNLI has s1.train 1, s2.train 2, labels.train 1"):
        list(open_source("snli", paths).rows())


def test_tsv_with_one_column_is_a_text_corpus(tmp_path: Path) -> None:
    source = open_source("file", write(tmp_path / "a.tsv", "sentence\na, b\n"))
    assert (source.columns, list(source.rows())) == (("text",), [("a, b",)])


def test_content_hash_follows_the_text_and_not_the_place(tmp_path: Path) -> None:
    first = open_source("file", write(tmp_path / "a.txt", "one\n")).content_hash
    assert open_source("wiki", DataPaths(wiki=write(tmp_path / "b.txt", "one\n").train_file)).content_hash == first
    assert open_source("file", write(tmp_path / "a.txt", "one!\n")).content_hash != first
    assert open_source("file", write(tmp_path / "a.csv", "one\n")).content_hash != first


def documents(path: Path, *lines: str) -> DataPaths:
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return DataPaths(documents=path, train_file=path)


def test_documents_are_the_text_fields_of_gzipped_json_lines(tmp_path: Path) -> None:
    lines = [json.dumps({"title": "t", "text": text}) for text in ("one\n two ", "caf\xe9\u2028three")]
    source = open_source("documents", documents(tmp_path / "a.jsonl.gz", *lines, ""))
    assert source.columns == ("text",)
    assert list(source.rows()) == list(source.rows()) == [("one two",), ("caf\xe9 three",)]
    by_hand = open_source("file", documents(tmp_path / "b.jsonl.gz", *lines, ""))
    assert (by_hand.content_hash, list(by_hand.rows())) == (source.content_hash, list(source.rows()))
    assert open_source("documents", documents(tmp_path / "a.jsonl.gz", lines[0])).content_hash != source.content_hash


def test_documents_may_be_plain_text_one_a_line(tmp_path: Path) -> None:
    paths = write(tmp_path / "a.txt", "a long document\nanother one\n")
    assert list(open_source("file", paths).rows()) == [("a long document",), ("another one",)]


@pytest.mark.parametrize(
    "line", ["", "  ", "{", "[1]", "null", '"text"', '{"txt": "a"}', '{"text": 3}', '{"text": " "}']
)
def test_a_line_that_holds_no_document_is_named(line: str, tmp_path: Path) -> None:
    paths = documents(tmp_path / "a.jsonl.gz", '{"text": "one"}', line, '{"text": "two"}')
    with pytest.raises(ConfigError, match=r"^wrong row: .*a.jsonl.gz line 2 is not a JSON object with words") as error:
        list(open_source("documents", paths).rows())
    one_line(error)


@pytest.mark.parametrize("corpus", ["wiki", "documents", "nli", "file"])
def test_missing_data_says_what_to_give(corpus: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"^missing data: train.corpus={corpus} .*--train-file FILE") as error:
        open_source(corpus, DataPaths())
    one_line(error)
    gone = tmp_path / "gone.txt"
    with pytest.raises(ConfigError, match=str(gone)):
        open_source(corpus, DataPaths(wiki=gone, documents=gone, nli=gone, train_file=gone))


def test_missing_wiki_names_the_file() -> None:
    with pytest.raises(ConfigError) as error:
        open_source("wiki", DataPaths())
    lacks = "missing data: train.corpus=wiki needs wiki/wiki_sentences.txt.gz"
    wanted = f"{lacks}; give --data DIR or --train-file FILE, or cse data get wiki1m"
    assert one_line(error) == wanted


def test_unknown_corpus_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"unknown corpus: train.corpus=wkii; did you mean wiki\?"):
        open_source("wkii", DataPaths())


@pytest.mark.parametrize(
    ("name", "content", "rule"),
    [
        ("latin.txt", "caf\xe9\n".encode("latin-1"), "not UTF-8"),
        ("cut.txt.gz", gzip.compress(b"some text\n" * 1000, mtime=0)[:-9], "truncated data"),
        ("wide.csv", b"a,b\n1,2,3\n", "wrong row: .*line 2 has 3 fields"),
        ("four.csv", b"a,b,c,d\n", "wrong header: .*4 columns"),
    ],
)
def test_damaged_files_give_one_line(name: str, content: bytes, rule: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"^{rule}") as error:
        list(open_source("file", DataPaths(train_file=path)).rows())
    one_line(error)


def test_generated_corpus() -> None:
    source = open_source("generated", DataPaths())
    rows = list(source.rows())
    assert len(rows) == len(set(rows)) == GENERATED_SENTENCES
    assert open_source("generated", DataPaths()).content_hash == source.content_hash


def test_hub_data_set_from_a_local_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "set"
    folder.mkdir()
    rows = [{"id": i, "title": f"title {i}", "text": text} for i, text in enumerate(["one", "", "two"])]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = open_source(f"hf:{folder}", DataPaths())
    assert (source.columns, list(source.rows())) == (("text",), [("one",), ("two",)])
    titles = open_source(f"hf:{folder}:train:title", DataPaths())
    assert list(titles.rows()) == [("title 0",), ("title 1",), ("title 2",)]
    assert titles.content_hash != source.content_hash
    with pytest.raises(ConfigError, match=r"unknown column: .*did you mean title"):
        open_source(f"hf:{folder}:train:titel", DataPaths())
    with pytest.raises(ConfigError, match=r"^unreadable data set: .*split test") as error:
        open_source(f"hf:{folder}:test", DataPaths())
    one_line(error)


def test_real_corpora(data_dir: Path) -> None:
    paths = DataPaths.from_folder(data_dir)
    triplets = list(open_source("nli", paths).rows())
    assert (len(triplets), {len(row) for row in triplets}) == (5864, {3})
    assert next(open_source("wiki", paths).rows())[0].startswith("Anarchism originated")
    pairs = list(open_source("snli", paths).rows())
    assert len(pairs) == 19666 and pairs[1][2] == "entailment"
    articles = [text for (text,) in open_source("documents", paths).rows()]
    assert len(articles) == 1823 and articles[0].startswith("Anarchism originated")


def test_a_hub_that_is_away_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def load(name: str, split: str) -> None:
        asked.append(datasets.config.HF_HUB_OFFLINE and constants.HF_HUB_OFFLINE)
        raise ConnectionError("first line\nsecond")

    for place in (datasets.config, constants):
        monkeypatch.setattr(place, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(tables, "hub_is_away", lambda: True)
    monkeypatch.setattr(datasets, "load_dataset", load)
    with pytest.raises(ConfigError, match=r"^unreadable data set: train.corpus=hf:no/such, split train \(Conn.*HF_HUB"):
        open_source("hf:no/such", DataPaths())
    assert asked == [True]


MEANINGS = (*AGENTS, *PLACES, *TIME_WORDS, *(meaning for domain in DOMAINS for slot in domain for meaning in slot))
"""Every meaning's wordings."""

FUNCTION_WORDS = set(
    re.findall(
        "[a-z]+",
        """
    a an the in on at of to by and it was who with into for some several from during among inside upon
""",
    )
)


def content_words(text: str) -> set[str]:
    return set(re.findall(r"[a-z']+", text.lower())) - FUNCTION_WORDS


def test_twenty_thousand_distinct_sentences_by_seed() -> None:
    made = sentences(20_000, 3)
    assert len(set(made)) == len(made) == 20_000
    assert made[:50] == sentences(50, 3)
    assert made[:50] != sentences(50, 4)


def test_wordings_of_a_meaning_share_no_content_word_with_any_other() -> None:
    seen = Counter(word for wordings in MEANINGS for text in wordings for word in content_words(text))
    assert [word for word, times in seen.items() if times > 1] == []


def test_pairs_are_graded_evenly_and_reproducibly() -> None:
    left, right, gold = make_graded_pairs(600, 1)
    assert Counter(gold) == {float(grade): 100 for grade in range(SENTENCE_SLOTS + 1)}
    assert (left, right, gold) == make_graded_pairs(600, 1)
    assert make_graded_pairs(12, 1) != make_graded_pairs(12, 2)
    assert all(a != b for a, b in zip(left, right, strict=True))


def test_grade_is_the_number_of_shared_meanings() -> None:
    """Read back from the words alone."""
    meaning_of = {
        word: number for number, wordings in enumerate(MEANINGS) for text in wordings for word in content_words(text)
    }
    for a, b, grade in zip(*make_graded_pairs(300, 7), strict=True):
        one, other = ({meaning_of[w] for w in content_words(text)} for text in (a, b))
        assert (len(one), len(other), len(one & other)) == (SENTENCE_SLOTS, SENTENCE_SLOTS, grade), (a, b)


def test_half_of_the_pairs_are_paraphrases_without_a_shared_content_word() -> None:
    left, right, gold = make_graded_pairs(600, 1)
    shared = np.array([len(content_words(a) & content_words(b)) for a, b in zip(left, right, strict=True)])
    paraphrase = np.arange(600) // (SENTENCE_SLOTS + 1) % 2 == 0
    assert shared[paraphrase].max() == 0
    assert shared[~paraphrase & (np.array(gold) == 5)].mean() > 2


PAIRS = {
    "sts12": 3108,
    "sts13": 1500,
    "sts14": 3750,
    "sts15": 3000,
    "sts16": 1186,
    "sts_test": 5749 + 1500 + 1379,
    "sickr_test": 4500 + 500 + 4927,
}


@pytest.mark.parametrize("name", PAIRS)
def test_every_scored_pair_of_the_published_files(name: str, data_dir: Path) -> None:
    paths = DataPaths.from_folder(data_dir)
    source = open_source(f"target:{name}", paths)
    rows = list(source.rows())
    assert source.columns == ("sent0", "sent1") and len(rows) == PAIRS[name]
    graded = load_pairs(name, paths)
    assert set(zip(graded.left, graded.right, strict=True)) <= set(rows)


def year(folder: Path, grades: str) -> DataPaths:
    files = folder / "STS" / "STS12-en-test"
    files.mkdir(parents=True)
    (files / "STS.input.a.txt").write_text("one  a\tone b\ntwo a\ttwo b\nthree a\tthree b\n")
    (files / "STS.gs.a.txt").write_text(grades)
    return DataPaths(senteval=folder)


def test_a_pair_without_a_grade_is_left_out_and_blanks_are_single(tmp_path: Path) -> None:
    source = open_source("target:sts12", year(tmp_path, "5.0\n\n1.2\n"))
    assert list(source.rows()) == [("one a", "one b"), ("three a", "three b")]


def test_the_hash_is_that_of_the_files(tmp_path: Path) -> None:
    hashes = {open_source("target:sts12", year(tmp_path / at, at)).content_hash for at in ("5\n", "4\n")}
    assert len(hashes) == 2


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "STS").mkdir()
    cases = [
        ("sts11", tmp_path, r"^unknown corpus: train.corpus=target:sts11; did you mean target:sts1\d\? \(or "),
        ("sts12", None, r"^missing data: train.corpus=target:sts12 needs senteval/downstream; give --data DIR or --se"),
        (
            "sts12",
            tmp_path,
            r"^missing data: train.corpus=target:sts12 needs .*STS12-en-test/STS.input.\*.txt; cse data get",
        ),
        ("sickr_test", tmp_path, r"^missing data: train.corpus=target:sickr_test needs .*SICK_train.txt; cse data get"),
    ]
    for name, senteval, line in cases:
        with pytest.raises(ConfigError, match=line):
            open_source(f"target:{name}", DataPaths(senteval=senteval))


def test_every_line_is_a_sentence_blank_ones_too(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("one \r\n\n  drei ü\nlast".encode())
    assert list(read_sentences(tmp_path / "a.txt")) == ["one", "", "drei ü", "last"]


def test_columns_of_tables(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,text\n1,"a, b"\n2\n3,c\n', encoding="utf8")
    (tmp_path / "one.tsv").write_text("anything\nx\ny\n", encoding="utf8")
    with gzip.open(tmp_path / "b.jsonl.gz", "wt", encoding="utf8") as file:
        file.write('{"text": "a", "title": "T"}\n{"text": " b "}\n')
    assert list(read_sentences(tmp_path / "a.csv", "text")) == ["a, b", "", "c"]
    assert list(read_sentences(tmp_path / "one.tsv")) == ["x", "y"]
    assert list(read_sentences(tmp_path / "b.jsonl.gz")) == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "content", "column", "told"),
    [
        ("a.csv", b"id,text\n1,a\n", None, "which column: file=.* has id, text; give --column NAME"),
        ("a.csv", b"id,text\n1,a\n", "txt", "unknown column: column=txt of .*; did you mean text?"),
        ("a.txt", b"a\n", "text", "no columns: column=text of .*plain text"),
        ("a.jsonl", b'{"text": "a"}\n{"text": 3}\n', None, "wrong row: .* line 2 is not"),
        ("a.jsonl", b"a\n", None, "wrong row: .* line 1 is not"),
        ("a.txt", b"\xff\xfe\n", None, "not UTF-8: "),
        ("a.txt.gz", b"no gzip", None, "truncated data: "),
    ],
)
def test_mistakes_about_sentences_are_one_line(
    name: str, content: bytes, column: str | None, told: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=f"^{told.replace('?', '[?]')}") as error:
        list(read_sentences(tmp_path / name, column))
    assert len(error.value.problems) == 1


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^no such file: file="):
        next(read_sentences(tmp_path / "a.txt"))


def test_chunks_are_bounded_in_rows_and_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "CHUNK_CHARACTERS", 10)
    assert list(files.chunks(["a"] * 4 + ["b" * 12, "c"], 3)) == [["a"] * 3, ["a", "b" * 12], ["c"]]
    assert list(files.chunks([], 3)) == []
