"""`cse pretrain`: masked-LM pretraining of a miniature encoder."""


def pretrain() -> None:
    """Pretrain a miniature encoder by masked LM."""
    raise NotImplementedError
