"""What a metric's name says of its numbers, where nobody declares it: other tools' metrics, and those of plug-ins."""

import re
from collections.abc import Iterable

LOWER_IS_BETTER = frozenset(
    "loss losses error errors err perplexity ppl entropy mae mse rmse mape nll bpc bpb wer cer ter eer distance "
    "divergence kl regret risk brier fid latency".split()
)
"""Words of which the lower value is mostly the better one, so that a direction must be declared."""
LOWER_ENDS = ("loss", "error", "perplexity", "entropy", "distance", "divergence")
BOUNDED = frozenset(
    "accuracy acc f1 f2 fbeta precision recall auc auroc auprc ap map mrr ndcg dcg hit hits spearman pearson kendall "
    "correlation corr rho tau cosine similarity sim sts bleu rouge meteor em iou dice mcc matthews jaccard purity nmi "
    "ari homogeneity completeness".split()
)
"""Words of metrics that end at 1, or in percent at 100."""
NAME_WORD = re.compile(r"[A-Z]?[a-z]+\d*|[A-Z]+(?![a-z])\d*")


def needs_direction(name: str) -> bool:
    """Whether the lower value of a metric of this name is likely the better one."""
    words = _words(name)
    return bool(words & LOWER_IS_BETTER) or any(word.endswith(LOWER_ENDS) for word in words)


def read_span(name: str, values: Iterable[float]) -> float | None:
    """The width of a bounded metric's range, 1 or 100 as its values are; None for a name or values that do not say."""
    sizes = [abs(value) for value in values]
    bounded = any(word in BOUNDED or word.rstrip("0123456789") in BOUNDED for word in _words(name))
    if not sizes or needs_direction(name) or not bounded:
        return None
    return 1.0 if max(sizes) <= 1 else 100.0 if max(sizes) <= 100 else None


def _words(name: str) -> set[str]:
    return {word.lower() for word in NAME_WORD.findall(name)}
