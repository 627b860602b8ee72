"""Evaluation against SentEval's way."""
