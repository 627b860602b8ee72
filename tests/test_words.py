"""The glossary: words that only this project would understand occur in no name, message, docstring or page.

Names are read by `tokenize`, a part at a time: `next_ticket` and `TicketBox` both hold `ticket`.
"""

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

REPO = Path(__file__).resolve().parents[1]
PACKAGES = ("search_spaces", "cse_train", "cluster", "analysis", "cse", "benchmarks", "docs")
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    *(f"docs/{p.name}" for p in REPO.glob("docs/*.md")),
)

NAMES = {
    "desk": "dispatcher",
    "bookings": "recorder",
    "ticket": "claimed run",
    "forgo": "skip",
    "horizon": "total_examples",
    "patience": "retry",
    "patient": "retrying",
    "left_behind": "cleanup",
    "node_answers": "run on every node",
    "stand_in": "substitution",
    "granted": "assumed",
    "deaf": "rejects",
    "struck": "injected",
    "delivery": "finished tables",
    "deliver": "finished tables",
}
"""Part of a name, one word or several -> what to use."""
WHOLE = {"Known": "RunMatcher", "Memory": "RunMatcher", "Evidence": "Reproduction", "evidence": "reproduction"}
"""Class, function or module of the product of exactly this name -> what to use."""
VARIABLES = ("found", "one", "known", "own", "told")
COPIED = "cse_train/modules/prompted_transformer.py"
"""Lies in exported folders, and counts there as ours by its bytes: it stays as it is."""
PHRASES = {
    "desk": "dispatcher",
    "bookings": "recorder",
    "ticket": "claimed run",
    "stand-in": "substitution",
    "struck": "injected, hit",
    "deaf": "rejects, ignores",
    "read aloud": "data flow",
    "said again": "run again",
    "told of": "reported",
    "as it should be": "passed",
}
"""Words of messages, docstrings, comments and pages -> what to use; a plural is the same word."""


class Place(NamedTuple):
    """Where a word stands."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


TEXT_TOKENS = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
CLASSES_AND_FUNCTIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Words:
    """What the modules and pages of a mapping from file to text say; each file is read once."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.names: list[Place] = []
        """Every identifier, and the modules' own names."""
        self.prose: list[Place] = []
        """Every line of a string or a comment; every line of a page."""
        self.definitions: list[Place] = []
        """Classes, functions and modules."""
        self.variables: list[Place] = []
        """Every place that gives a variable or a parameter its value."""
        for file, text in texts.items():
            if file.endswith(".md"):
                self.prose += [Place(file, number, line) for number, line in enumerate(text.splitlines(), 1)]
            else:
                self._read_tokens(file, text)
                self._read_tree(file, text)

    def _read_tokens(self, file: str, text: str) -> None:
        self.names.append(Place(file, 0, Path(file).stem))
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            line = token.start[0]
            if token.type == tokenize.NAME:
                self.names.append(Place(file, line, token.string))
            if token.type in TEXT_TOKENS:
                self.prose += [Place(file, line + i, part) for i, part in enumerate(token.string.splitlines())]

    def _read_tree(self, file: str, text: str) -> None:
        self.definitions.append(Place(file, 0, Path(file).stem))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, CLASSES_AND_FUNCTIONS):
                self.definitions.append(Place(file, node.lineno, node.name))
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.variables.append(Place(file, node.lineno, node.id))
            elif isinstance(node, ast.arg):
                self.variables.append(Place(file, node.lineno, node.arg))


@functools.cache
def words() -> Words:
    """Of the whole project."""
    paths = [path for package in PACKAGES for path in sorted((REPO / package).rglob("*.py"))]
    paths += [REPO / page for page in PAGES]
    return Words({path.relative_to(REPO).as_posix(): path.read_text(encoding="utf8") for path in paths})


@functools.cache
def snake(name: str) -> str:
    """`DeskSearcher` and `desk_searcher` alike, with a bar at both ends and between the parts."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
    return "_" + "_".join(part.lower() for part in parts) + "_"


def with_part(word: str, places: Iterable[Place]) -> list[Place]:
    """Places whose name has the word as a part, in the singular or the plural."""
    return [place for place in places if f"_{word}_" in snake(place.text) or f"_{word}s_" in snake(place.text)]


def with_phrase(phrase: str, places: Iterable[Place]) -> list[Place]:
    pattern = re.compile(rf"(?<![\w/.-]){phrase}s?(?![\w/-])", re.IGNORECASE)
    return [place for place in places if pattern.search(place.text)]


def shown(word: str, instead: str, places: Iterable[Place]) -> str:
    return "\n".join([f"{word}: write {instead}", *map(str, places)])


@pytest.mark.parametrize("word", NAMES)
def test_no_name_has_a_private_word(word: str) -> None:
    places = with_part(word, words().names)
    assert not places, shown(word, NAMES[word], places)


def test_no_class_function_or_module_has_a_private_name() -> None:
    places = [p for p in words().definitions if p.text in WHOLE and not p.file.startswith("benchmarks/")]
    assert not places, shown("names", str(WHOLE), places)


@pytest.mark.parametrize("phrase", PHRASES)
def test_no_message_docstring_comment_or_page_has_a_private_phrase(phrase: str) -> None:
    places = with_phrase(phrase, words().prose)
    assert not places, shown(phrase, PHRASES[phrase], places)


@pytest.mark.parametrize("package", PACKAGES)
def test_variables_are_nouns(package: str) -> None:
    places = [p for p in words().variables if p.text in VARIABLES and p.file.startswith(f"{package}/")]
    places = [p for p in places if p.file != COPIED]
    assert not places, shown("variables", "a noun for the value", places)


PLANTED = '''"""The desk said again that it is deaf to stand-ins."""
class Known:
    def next_ticket(self, found):
        one = PatientLedger(stand_ins=found)  # struck
        return f"told of {one}"
'''


def test_planted_words_are_refused_by_name() -> None:
    planted = Words({"cluster/new.py": PLANTED, "docs/new.md": "Two tickets.\n"})
    assert [place.line for place in with_part("ticket", planted.names)] == [3]
    assert [place.text for place in with_part("stand_in", planted.names)] == ["stand_ins"]
    assert [place.text for place in with_part("patient", planted.names)] == ["PatientLedger"]
    assert with_part("desk", [Place("cluster/new.py", 1, "desktop")]) == []
    assert [place.text for place in planted.definitions if place.text in WHOLE] == ["Known"]
    assert {place.text for place in planted.variables if place.text in VARIABLES} == {"one", "found"}
    refused = [phrase for phrase in PHRASES if with_phrase(phrase, planted.prose)]
    assert refused == ["desk", "ticket", "stand-in", "struck", "deaf", "said again", "told of"]
