"""The options of each method, without torch: its `Config` in a module of the method's name.

A command that only reads settings (a table, a listing, a check of a space) starts faster for it. A method may also
keep it in its own module, where `methods.config_class` finds it.
"""

from typing import Literal

__all__ = ["PlainPooler"]

PlainPooler = Literal["mean", "cls_no_mlp", "last", "first_last", "first_last_layer1"]
"""How a method without a projector makes one vector of a text's token vectors (`cse_train.modules.pooling.POOLERS`)."""
Pooler = Literal["cls", "cls_train_only", "cls_no_mlp", "mean", "last", "first_last", "first_last_layer1"]
"""The same where a projector may follow [CLS]."""
