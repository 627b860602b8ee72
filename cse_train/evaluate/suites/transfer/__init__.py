"""SentEval's transfer tasks."""
