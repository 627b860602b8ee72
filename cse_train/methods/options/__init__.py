"""Options of each method: a class `Config`, importable without torch, in a module of the method's name.

A command that only reads settings (a table, a listing, a check of a space) starts faster without torch. A method may
also keep its `Config` in its own module, where `methods.config_class` finds it.
"""

from typing import Literal

from cse_train.plugins.options import PlainPooler

__all__ = ["PlainPooler", "Pooler"]

Pooler = Literal["cls", "cls_train_only", "cls_no_mlp", "mean", "last", "first_last", "first_last_layer1"]
"""Pooling of token vectors to one vector, for methods where a projector may follow [CLS]."""
