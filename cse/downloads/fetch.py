"""Downloads published files: by huggingface_hub from the hub, else by HTTP; both resume partial downloads."""

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

STALL_SECONDS = 30.0
"""Seconds without a byte after which a connection is considered lost."""
TRIES = 5
FIRST_PAUSE_SECONDS = 1.0
"""Seconds of pause before the second try; doubled before each later one."""
CHUNK = 1 << 20
PAGE_STARTS = (b"<!doctype", b"<html", b"<?xml")
"""First bytes of web pages, which are no data set."""


class NotFetched(WholeReason, RuntimeError):
    """Error for a file that no address returned; the cause is the network or the publisher."""


def fetch(download: Download, folder: Path, mirror: str | None = None) -> Path:
    """Downloads a file into `folder` and returns its path; a partial file of an earlier call is resumed.

    `mirror`: address that is tried first. Raises NotFetched, one line with every address and why it failed, and OSError
    where the disk is full or read-only.
    """
    addresses = [f"{mirror.rstrip('/')}/{download.name}"] if mirror else []
    reasons = []
    for number, address in enumerate([*addresses, *download.addresses]):
        part = folder / f"{number}-{download.name}"  # parts of two addresses never make up one file
        try:
            file = _from_hub(address, part) if address.startswith(HUB) else _from_web(address, part)
            if problem := wrong_content(file, download.kind):
                file.unlink()
                raise NotFetched(problem)
            return file.replace(folder / download.name)
        except NotFetched as error:
            reasons.append(f"{address}: {error}")
        except OSError as error:
            error.filename = error.filename or str(part)  # a write to a full disk names none
            raise
    advice = "check the network, HTTPS_PROXY and HF_ENDPOINT, or give --mirror ADDRESS; the same command goes on"
    raise NotFetched(f"not fetched: {', '.join(reasons)}; {advice}")


def wrong_content(file: Path, kind: str) -> str | None:
    """Returns why a file is not of its kind; None if it is."""
    with file.open("rb") as opened:
        start = opened.read(CHUNK).lstrip().lower()
    if start.startswith(PAGE_STARTS):
        return "a page of HTML came instead of the file (a proxy's or a login's?)"
    if kind == "archive" and not (zipfile.is_zipfile(file) or tarfile.is_tarfile(file)):
        return "what came is no archive"
    return "what came is empty" if not start else None


def _from_hub(address: str, part: Path) -> Path:
    """Downloads with huggingface_hub, which follows HF_ENDPOINT, HF_TOKEN and proxies, and keeps partial files."""
    owner, name, file = address.removeprefix(HUB).split("/", 2)
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it says each of its tries
    try:
        with warnings.catch_warnings(action="ignore"):  # of a disk that is too small, which ends in one line
            path = hf_hub_download(f"{owner}/{name}", file, repo_type="dataset", local_dir=part.with_suffix(".hub"))
        return Path(path)
    except OSError as error:
        if error.errno is not None:
            raise  # the disk's
        raise NotFetched(first_line(error.__cause__ or error)) from error
    except Exception as error:
        raise NotFetched(first_line(error)) from error


def _from_web(address: str, part: Path) -> Path:
    pause = FIRST_PAUSE_SECONDS
    for tries_left in reversed(range(TRIES)):
        try:
            return _resume(address, part)
        except urllib.error.HTTPError as error:
            if error.code < 500 or not tries_left:
                raise NotFetched(f"HTTP {error.code} {error.reason}") from error
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
            if not tries_left:
                raise NotFetched(first_line(error)) from error
        time.sleep(pause)
        pause *= 2
    raise AssertionError


def _resume(address: str, part: Path) -> Path:
    """Downloads what the partial file `part` lacks; a server that refuses ranges sends the whole file again."""
    size = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(address, headers={"Range": f"bytes={size}-"} if size else {})
    try:
        answer = urllib.request.urlopen(request, timeout=STALL_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        part.unlink()  # as long as the whole file or longer: another file's part, or one that was whole
        return _resume(address, part)
    with answer, part.open("ab" if answer.status == http.client.PARTIAL_CONTENT else "wb") as out:
        expected = answer.headers["Content-Length"]
        start = out.tell()
        while chunk := answer.read(CHUNK):
            out.write(chunk)
        if expected is not None and out.tell() - start < int(expected):
            raise http.client.IncompleteRead(b"", int(expected) - (out.tell() - start))
    return part
