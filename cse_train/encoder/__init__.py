"""BERT and RoBERTa computed exactly on packed input."""
