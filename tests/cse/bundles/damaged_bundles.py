"""Bundles that go wrong on their way: bytes and values are exchanged, gzip unpacks to far more, JSON is nested deep."""

import gzip
import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from analysis.bundles import Bundle
from analysis.ledger import Ledger
from analysis.ledger.exchange.merge import RecordSource, merge
from cse.bundles.contents import gather, write
from tests.damage.damages import as_json, damaged, exchanged

BOMB = 900 * 10**6
"""Bytes that a bomb unpacks to, in so many lines that each costs time."""
DEPTHS = (40, 300, 500, 900, 5_000, 100_000)


def written(records: Sequence[bytes], header: dict[str, Any] | None = None) -> bytes:
    """A bundle of these lines, with the sum and the counts that fit them."""
    body = b"".join(record + b"\n" for record in records)
    kinds = Counter(str(kind_of(record)) for record in records)
    said = {"format": "cse-search bundle", "version": 1, "counts": kinds, "sha256": hashlib.sha256(body).hexdigest()}
    return gzip.compress(as_json({**said, **(header or {})}) + b"\n" + body, 1)


def kind_of(record: bytes) -> Any:
    try:
        return json.loads(record)["kind"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return "run"


def sound_bundle(folder: Path, ledger: Ledger) -> bytes:
    """The bytes of a bundle with a record of each kind."""
    write(folder / "sound.jsonl.gz", gather(ledger))
    return (folder / "sound.jsonl.gz").read_bytes()


def nested(record: dict[str, Any], column: str, depth: int, kind: str) -> bytes:
    """A record one of whose values is nested so deep."""
    opened, closed = ('{"a":', "}") if kind == "object" else ("[", "]")
    value = "1" if kind == "object" else ""
    return as_json(record | {column: "PLACE"}).replace(b'"PLACE"', f"{opened * depth}{value}{closed * depth}".encode())


def bombs(header: bytes) -> list[bytes]:
    """Small files that unpack to far more, after a header that is right."""
    parts = (b"\n" * 10**6, b"\0" * 10**6, b'{"kind":"run"}\n' * 70_000)
    return [
        gzip.compress(header, 9) + gzip.compress(part, 9) * (BOMB // len(part)) for part in parts
    ]  # of many members, each of which a reader goes through


def bundle_readers(
    sound: bytes, show: Callable[[Path], None]
) -> list[tuple[str, st.SearchStrategy[Any], Callable[[Path, Any], object]]]:
    """(name, damages, reader) of each way; `show(folder)` looks at the ledger l.db with every command."""
    header, *lines = gzip.decompress(sound).splitlines()
    records = [json.loads(line) for line in lines]
    numbers = gzip.decompress(sound)

    def taken(folder: Path, content: bytes) -> Ledger:
        (folder / "mine.jsonl.gz").write_bytes(content)
        bundle = Bundle(folder / "mine.jsonl.gz")
        ledger = Ledger.open(folder / "l.db")
        merge(ledger, bundle.records(), RecordSource("mine.jsonl.gz", bundle.header.sha256))
        return ledger

    def same(folder: Path, content: bytes) -> None:
        """What the sum of the file lets through has the same records."""
        ledger = taken(folder, content)
        write(folder / "again.jsonl.gz", gather(ledger))
        ledger.close()
        found = gzip.decompress((folder / "again.jsonl.gz").read_bytes())
        assert found.splitlines()[1:] == numbers.splitlines()[1:], "other records were accepted"

    def unpacked(folder: Path, content: bytes) -> None:
        same(folder, gzip.compress(content, 1))

    def harmless(folder: Path, content: bytes) -> None:
        """Somebody wrote it so, with the sum that fits: refused, or every command reads the ledger afterwards."""
        taken(folder, content).close()
        show(folder)
        shutil.rmtree(folder / "figures", ignore_errors=True)

    fields = [(record, column) for record in records for column in record if column != "kind"]
    deep = st.builds(
        lambda field, depth, kind: written([nested(field[0], field[1], depth, kind)]),
        *(st.sampled_from(fields), st.sampled_from(DEPTHS), st.sampled_from(("object", "list"))),
    )
    said = exchanged(json.loads(header)).map(lambda tree: gzip.compress(as_json(tree) + b"\n" + b"\n".join(lines), 1))
    made = bombs(header + b"\n")
    other = exchanged(records).map(lambda tree: written([as_json(record) for record in tree]))
    return [
        ("bundle", damaged(sound), same),
        ("bundle, unpacked", damaged(numbers), unpacked),
        ("bundle's header", said, same),
        ("bundle's records", other, harmless),
        ("bundle, deep", deep, harmless),
        ("bundle, bombs", st.sampled_from(made), same),
    ]
