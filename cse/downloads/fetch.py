"""Fetch a published file: from the hub by its own library, from elsewhere by HTTP, each going on where it was cut."""

import http.client
import logging
import tarfile
import time
import urllib.error
import urllib.request
import warnings
import zipfile
from pathlib import Path

from huggingface_hub import hf_hub_download

from cse.downloads.catalog import HUB, Download
from cse_train.reading import WholeReason, first_line

WAIT_S = 30.0
"""Seconds without a byte after which a connection counts as cut."""
TRIES = 5
FIRST_PAUSE_S = 1.0
"""Before the second try; doubled before each further data_set."""
CHUNK = 1 << 20
PAGE_STARTS = (b"<!doctype", b"<html", b"<?xml")
"""How a page begins that is no text of a data set."""


class NotFetched(WholeReason, RuntimeError):
    """No address gave the file; the network's or the publisher's doing."""


def fetch(download: Download, folder: Path, mirror: str | None = None) -> Path:
    """The file, below `folder`, where a part of it may lie from an earlier call. A mirror's address is tried first.

    Raises NotFetched, one line with every address and why it failed; OSError where the disk is full or read-only.
    """
    addresses = [f"{mirror.rstrip('/')}/{download.name}"] if mirror else []
    reasons = []
    for number, address in enumerate([*addresses, *download.addresses]):
        here = folder / f"{number}-{download.name}"  # parts of two addresses never make up one file
        try:
            got = _from_hub(address, here) if address.startswith(HUB) else _from_web(address, here)
            if why := wrong_content(got, download.kind):
                got.unlink()
                raise NotFetched(why)
            return got.replace(folder / download.name)
        except NotFetched as error:
            reasons.append(f"{address}: {error}")
        except OSError as error:
            error.filename = error.filename or str(here)  # a write to a full disk names none
            raise
    advice = "check the network, HTTPS_PROXY and HF_ENDPOINT, or give --mirror ADDRESS; the same command goes on"
    raise NotFetched(f"not fetched: {', '.join(reasons)}; {advice}")


def wrong_content(file: Path, kind: str) -> str | None:
    """Why a file is not of its kind; None where it is."""
    with file.open("rb") as opened:
        start = opened.read(CHUNK).lstrip().lower()
    if start.startswith(PAGE_STARTS):
        return "a page of HTML came instead of the file (a proxy's or a login's?)"
    if kind == "archive" and not (zipfile.is_zipfile(file) or tarfile.is_tarfile(file)):
        return "what came is no archive"
    return "what came is empty" if not start else None


def _from_hub(address: str, here: Path) -> Path:
    """By huggingface_hub, which knows HF_ENDPOINT, HF_TOKEN and proxies, and keeps a part for the next call."""
    owner, name, file = address.removeprefix(HUB).split("/", 2)
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it says each of its tries
    try:
        with warnings.catch_warnings(action="ignore"):  # of a disk that is too small, which ends in one line
            got = hf_hub_download(f"{owner}/{name}", file, repo_type="dataset", local_dir=here.with_suffix(".hub"))
        return Path(got)
    except OSError as error:
        if error.errno is not None:
            raise  # the disk's
        raise NotFetched(first_line(error.__cause__ or error)) from error
    except Exception as error:
        raise NotFetched(first_line(error)) from error


def _from_web(address: str, here: Path) -> Path:
    pause = FIRST_PAUSE_S
    for left in reversed(range(TRIES)):
        try:
            return _go_on(address, here)
        except urllib.error.HTTPError as error:
            if error.code < 500 or not left:
                raise NotFetched(f"HTTP {error.code} {error.reason}") from error
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
            if not left:
                raise NotFetched(first_line(error)) from error
        time.sleep(pause)
        pause *= 2
    raise AssertionError


def _go_on(address: str, here: Path) -> Path:
    """Fetch what `here` lacks; a server that refuses ranges gives the whole file again."""
    begun = here.stat().st_size if here.exists() else 0
    request = urllib.request.Request(address, headers={"Range": f"bytes={begun}-"} if begun else {})
    try:
        answer = urllib.request.urlopen(request, timeout=WAIT_S)
    except urllib.error.HTTPError as error:
        if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        here.unlink()  # as long as the whole file or longer: another file's part, or one that was whole
        return _go_on(address, here)
    with answer, here.open("ab" if answer.status == http.client.PARTIAL_CONTENT else "wb") as out:
        expected = answer.headers["Content-Length"]
        before = out.tell()
        while chunk := answer.read(CHUNK):
            out.write(chunk)
        if expected is not None and out.tell() - before < int(expected):
            raise http.client.IncompleteRead(b"", int(expected) - (out.tell() - before))
    return here
