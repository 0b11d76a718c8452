"""Trinity-Go for Python: `tg.GRPO(model=…, dataset=…, reward=…).train()`, and where its program is."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ._binary import NotInstalled, binary
from ._marks import advantage, loss, operator, reward, tool, workflow

if TYPE_CHECKING:
    from ._front import Recipe, Run, RunError
    from .rollouts import Model, Task

_ROLLOUTS = ("Model", "Task")
__all__ = [
    "Model", "NotInstalled", "Recipe", "Run", "RunError", "Task", "advantage", "binary", "loss", "operator", "reward", "tool",
    "workflow",
]  # fmt: skip


def __getattr__(name: str) -> type[Recipe]:
    """Return what a worker of a run does not load, and the class of an algorithm of the program."""
    if name not in __all__ and not name[:1].isupper():  # a module, which Python then imports
        raise AttributeError(f"trinity_go has no {name}")
    module = importlib.import_module(".rollouts" if name in _ROLLOUTS else "._front", __name__)
    found: type[Recipe] | None = vars(module)[name] if name in __all__ else module.recipe(name)
    if found is None:
        raise AttributeError(f"trinity_go has no {name}: `trinity list algorithm` has the algorithms")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    _config = importlib.import_module("._config", __name__)
    try:
        algorithms = [name.upper() for name in _config.algorithms().values()]
    except NotInstalled:
        algorithms = []
    return sorted([*__all__, *algorithms])
