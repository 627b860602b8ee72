"""Reads the records of a `.wandb` file, which an offline run of Weights & Biases leaves.

The format is LevelDB's log (github.com/google/leveldb, doc/log_format.md): blocks of 32 KiB, and within them pieces of
a header (checksum, length, type) and data, after seven bytes of W&B's own. Checksums are not compared: a damaged record
fails when it is parsed.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

MAGIC = b":W&B"
BEFORE = 7
"""Bytes before the first piece; they count as part of the first block."""
LOG_BLOCK = 32 * 1024
PIECE_HEADER = struct.Struct("<IHB")
"""Layout of a piece's header: checksum, length of the data, type."""
WHOLE_PIECE, FIRST_PIECE, MIDDLE_PIECE, LAST_PIECE = 1, 2, 3, 4


def records(file: Path) -> Iterator[bytes]:
    """Yields each complete record; a cut-off end, as in a file still being written, is left out.

    Raises ValueError for a file that does not begin as W&B's files do.
    """
    data = file.read_bytes()
    if not data.startswith(MAGIC):
        raise ValueError("it does not begin as W&B's files do")
    place, pieces = BEFORE, b""
    while place + PIECE_HEADER.size <= len(data):
        # A block without room for another header ends in padding.
        if (left := LOG_BLOCK - place % LOG_BLOCK) < PIECE_HEADER.size:
            place += left
            continue
        _, length, kind = PIECE_HEADER.unpack_from(data, place)
        place += PIECE_HEADER.size
        piece = data[place : place + length]
        if len(piece) < length or kind not in (WHOLE_PIECE, FIRST_PIECE, MIDDLE_PIECE, LAST_PIECE):
            return
        place += length
        pieces = piece if kind in (WHOLE_PIECE, FIRST_PIECE) else pieces + piece
        if kind in (WHOLE_PIECE, LAST_PIECE):
            yield pieces
