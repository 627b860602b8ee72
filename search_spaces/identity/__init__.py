"""Identity of runs: the signature of a configuration with content hashes of its inputs and of its method's code."""

__all__ = ["method_code", "missing_inputs", "signature", "user_files"]
