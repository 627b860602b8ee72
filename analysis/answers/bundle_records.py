"""Checks that runs of a stranger's bundle have the signatures of their settings, if this version can compute them."""

from collections.abc import Iterator

from analysis.answers.imported import IMPORTED
from analysis.bundles import REFETCH_ADVICE, Bundle, BundleError
from analysis.ledger.exchange.columns import Record
from cse_train.config import complete, parse_run
from cse_train.fields import ConfigError
from search_spaces.identity.signature import possible_signatures


def check_records(bundle: Bundle) -> Iterator[Record]:
    """Yields each record of a bundle. Raises BundleError for a damaged record, and for a run with a wrong signature."""
    for record in bundle.records():
        if record["kind"] == "run" and not _has_its_signature(record):
            fault = f"signature={record['signature']} is not that of its config and identity"
            raise BundleError(f"wrong record: file={bundle.path} {fault}; {REFETCH_ADVICE}")
        yield record


def _has_its_signature(run: Record) -> bool:
    """Returns whether a run has the signature of its settings; True too if this version cannot compute it.

    That is so for another tool's run, an unknown method or a newer version. Runs before 0.2.0 record no version, and
    their signatures were made otherwise.
    """
    if IMPORTED in run["identity"]:
        return True
    try:
        parsed = parse_run(complete({**run["config"], "method": run["method"], "train.seed": run["seed"]}))
    except ConfigError:
        return True
    version = run["attempts"][-1]["details"].get("method_version") if run["attempts"] else None
    signatures = possible_signatures(parsed, run["identity"])
    newest = max(version for version, _, _ in signatures)
    return not isinstance(version, int) or version > newest or run["signature"] in signatures.values()
