"""Name, links and BibTeX entry of a paper, from the citation and source in a table's file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

ANTHOLOGY = re.compile(r"ACL Anthology ([\w.-]+)")
ARXIV = re.compile(r"arXiv (\d{4}\.\d{4,5})")
CITATION_PARTS = re.compile(
    r"\A(?P<authors>.+?), (?P<title>(?P<name>[^,:]+): .+), (?P<venue>[^,]*?) ?(?P<year>(?:19|20)\d\d)\Z"
)
"""Pattern of a citation such as `Gao, Yao and Chen, SimCSE: Simple Contrastive Learning ..., EMNLP 2021`."""
SPECIAL = str.maketrans({char: f"\\{char}" for char in "&%$#_{}"} | {"\\": r"\textbackslash{}"})


@dataclass(frozen=True)
class Citation:
    """Parts of a paper's citation; all but `text` may be empty."""

    text: str
    name: str
    """Name of the paper's method, such as SimCSE."""
    links: Mapping[str, str]
    """Name of a place that has the paper -> address."""
    bibtex: str


def read(text: str, source: str) -> Citation:
    """Parses a citation `AUTHORS, NAME: TITLE, VENUE YEAR`, and ACL Anthology and arXiv numbers in `source`."""
    anthology, arxiv = (pattern.search(source) for pattern in (ANTHOLOGY, ARXIV))
    links = {f"ACL Anthology {anthology[1]}": f"https://aclanthology.org/{anthology[1]}"} if anthology else {}
    links |= {f"arXiv {arxiv[1]}": f"https://arxiv.org/abs/{arxiv[1]}"} if arxiv else {}
    parts = CITATION_PARTS.match(text)
    name = parts["name"] if parts else text.partition(",")[0]
    fields = _fields(parts) if parts else {"note": text.translate(SPECIAL)}
    if arxiv:
        fields |= {"eprint": arxiv[1], "archiveprefix": "arXiv"}
    if links:
        fields["url"] = next(iter(links.values()))
    kind = "inproceedings" if "booktitle" in fields else "misc"
    lines = [f"  {field} = {{{value}}}," for field, value in fields.items()]
    key = re.sub(r"\W+", "", name).lower() + (parts["year"] if parts else "")
    return Citation(text, name, links, "\n".join([f"@{kind}{{{key or 'paper'},", *lines, "}"]) + "\n")


def _fields(parts: re.Match[str]) -> dict[str, str]:
    """Returns BibTeX fields; authors are family names only, as in the citation."""
    authors = parts["authors"].replace(" et al.", " and others")
    title = parts["title"].translate(SPECIAL).replace(parts["name"], f"{{{parts['name']}}}", 1)
    venue = {"booktitle": parts["venue"].translate(SPECIAL)} if parts["venue"] else {}
    author = authors.replace(", ", " and ").translate(SPECIAL)
    return {"author": author, "title": title, **venue, "year": parts["year"]}
