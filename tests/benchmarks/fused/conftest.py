"""The tiny encoder and the text of the tests of `cse_train`."""

from tests.cse_train.conftest import labelled_file, text_file, tiny_encoder, tiny_paths, tiny_settings, triplets_file

__all__ = ["labelled_file", "text_file", "tiny_encoder", "tiny_paths", "tiny_settings", "triplets_file"]
