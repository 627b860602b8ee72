"""Guesses from a metric's name, for metrics of other tools and plug-ins that declare neither direction nor range."""

import re
from collections.abc import Iterable

LOWER_IS_BETTER = frozenset(
    "loss losses error errors err perplexity ppl entropy mae mse rmse mape nll bpc bpb wer cer ter eer distance "
    "divergence kl regret risk brier fid latency".split()
)
"""Words in names of metrics of which the lower value is mostly the better one, so that a direction must be declared."""
LOWER_ENDS = ("loss", "error", "perplexity", "entropy", "distance", "divergence")
"""Ends of words, such as `logloss`, that also mark metrics of which the lower value is mostly the better one."""
BOUNDED = frozenset(
    "accuracy acc f1 f2 fbeta precision recall auc auroc auprc ap map mrr ndcg dcg hit hits spearman pearson kendall "
    "correlation corr rho tau cosine similarity sim sts bleu rouge meteor em iou dice mcc matthews jaccard purity nmi "
    "ari homogeneity completeness".split()
)
"""Words in names of metrics that end at 1, or in percent at 100."""
NAME_WORD = re.compile(r"[A-Z]?[a-z]+\d*|[A-Z]+(?![a-z])\d*")
"""Pattern of one word in the name of a metric; camel case and digits divide words."""


def needs_direction(name: str) -> bool:
    """Returns whether the lower value of a metric with this name is likely the better one."""
    words = _words(name)
    return bool(words & LOWER_IS_BETTER) or any(word.endswith(LOWER_ENDS) for word in words)


def read_span(name: str, values: Iterable[float]) -> float | None:
    """Returns the width of a bounded metric's range, 1 or 100 by the size of `values`; None where it is unknown."""
    sizes = [abs(value) for value in values]
    bounded = any(word in BOUNDED or word.rstrip("0123456789") in BOUNDED for word in _words(name))
    if not sizes or needs_direction(name) or not bounded:
        return None
    return 1.0 if max(sizes) <= 1 else 100.0 if max(sizes) <= 100 else None


def _words(name: str) -> set[str]:
    return {word.lower() for word in NAME_WORD.findall(name)}
