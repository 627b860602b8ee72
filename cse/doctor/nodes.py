"""Checks of `cse doctor` on a Ray cluster: its address, its nodes, and each node's code, versions, storage and data."""

import platform
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster.runtime.code_version import code_digest
from cluster.runtime.join import other_nodes, report_silence, run_on_nodes
from cluster.runtime.options import SweepOptions
from cluster.runtime.resources import cards_of, check_cards, cluster_nodes, limit, slots_that_fit
from cluster.runtime.start import ray_cluster
from cluster.runtime.storage import check_nodes
from cse.doctor.checks import Finding, tell_fit, try_check, versions
from cse_train.fields import ConfigError


@dataclass(frozen=True)
class NodeFacts:
    """Host name, package versions and code of one node."""

    host: str
    versions: Mapping[str, str]
    digest: str
    """Digest of the files of cse-search's packages, by `cluster.runtime.code_version.code_digest`."""


def facts() -> NodeFacts:
    """Returns the facts of the machine on which it is called."""
    return NodeFacts(platform.node(), versions(), code_digest())


def cluster(options: SweepOptions, inputs: Sequence[Path]) -> list[Finding]:
    """Joins the cluster at `options.address` and checks every node; one `stop` finding if it cannot be joined."""
    assert options.address is not None
    try:
        with tempfile.TemporaryDirectory() as folder, ray_cluster(Path(folder), address=options.address):
            return [Finding("fine", "cluster", f"joined at {options.address}"), *nodes(options, inputs)]
    except ConfigError as error:
        return [Finding("stop", "cluster", line) for line in error.problems]


def nodes(options: SweepOptions, inputs: Sequence[Path]) -> list[Finding]:
    """Checks the nodes of the cluster that this process has joined: room for runs, code, versions, storage and data."""

    def check_shared_files() -> str:
        check_nodes(options.storage, inputs)
        return f"every node reads and writes {options.storage} and has the data given"

    members = cluster_nodes()

    def check_room() -> str:
        check_cards(options, cards_of(members))
        fit = slots_that_fit(options, members)
        return f"{tell_fit(fit, options)}, limited by {limit(options, members)}"

    findings = [Finding("fine", "node", str(node)) for node in members]
    findings += try_check("cluster", check_room)
    findings += compare(facts(), run_on_nodes(other_nodes(), facts))
    if options.storage.is_dir():
        findings += try_check("storage", check_shared_files)
    return list(dict.fromkeys(findings))


def compare(local: NodeFacts, remote: Mapping[str, NodeFacts | str]) -> list[Finding]:
    """Compares nodes: a `stop` finding for other code or no answer, a `note` for each package of another version."""
    findings = []
    for node, answer in remote.items():
        if isinstance(answer, str):
            findings.append(Finding("stop", "node", report_silence(node, answer)))
            continue
        differing = _find_differences(node, local, answer)
        findings += differing or [Finding("fine", "node", f"{node} has this code and these versions")]
    return findings


def _find_differences(node: str, local: NodeFacts, remote: NodeFacts) -> list[Finding]:
    findings = []
    if remote.digest != local.digest:
        line = f"different code: node={node} digest={remote.digest}, here {local.digest}"
        findings.append(Finding("stop", "node", f"{line}; install the same cse-search there"))
    for name, version in local.versions.items():
        other = remote.versions.get(name) or "none"
        if other != version:
            line = f"different version: node={node} {name}={other}, here {version}"
            findings.append(Finding("note", "node", f"{line}; install {name} {version} there"))
    return findings
