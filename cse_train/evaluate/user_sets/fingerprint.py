"""Fingerprints that find sets with equal texts, however these are tokenised, ordered, cased or graded."""

import hashlib
from collections.abc import Iterable

from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.transfer.loaders import load_task
from cse_train.evaluate.user_sets.judgements import load_judgements
from cse_train.evaluate.user_sets.kinds import open_user_file
from cse_train.user_files import UserFile

SHIPPED_TESTS = {
    "ae629cd4cf90da8dad78b28a": "sts12",
    "b136d5e8bd3eee0e4c991fd6": "sts13",
    "295c26eee0778dcbe72b43d1": "sts14",
    "469d3716e094c5097b39a2b3": "sts15",
    "3e7e7f30c48e13056f142510": "sts16",
    "57d94d358d7e07c7c9322baf": "sts_test",
    "c2af1a50a7d06d5eb7374547": "sickr_test",
    "7b24d90252cb2fd201ad6c53": "sst2",
    "fd1d7d83ad07172bc6c3adf8": "trec",
    "2fadc893b3b769c14c8fa46a": "mrpc",
    "059f4f338510596a76c0d8de": "sst5",
    "8335f87b51ebcf010114a99d": "mr",
    "f3131b28100e1c84f98fa377": "cr",
    "70ca9dfaa96a82b20e324e54": "subj",
    "388dec642983d8843233ae07": "mpqa",
}
"""Fingerprint of a test set that the suites score -> its name: no dev set may have its texts."""


def fingerprint(items: Iterable[tuple[str, ...]]) -> str:
    """Returns the hash of the letters and digits of distinct items, each one sentence or a pair in either order."""
    plain = {"\t".join(sorted("".join(filter(str.isalnum, text.lower())) for text in item)) for item in items}
    return hashlib.sha256("\n".join(sorted(plain)).encode("utf8", "surrogatepass")).hexdigest()[:24]


def fingerprint_of(file: UserFile) -> str:
    """Returns the fingerprint of a user's dev or test set. ConfigError for one that cannot be read."""
    paths = DataPaths(files=(file,))
    kind = open_user_file(file).kind
    if kind == "ratings":
        pairs = load_pairs(file.name, paths)
        return fingerprint(zip(pairs.left, pairs.right, strict=True))
    if kind == "labels":
        (split,) = load_task(file.name, paths).splits.values()
        return fingerprint((text,) for text in split.texts[0])
    judgements = load_judgements(file)
    return fingerprint((text,) for text in (*judgements.queries, *judgements.documents))
