"""Modules that carry state along a row, such as short convolutions and linear attention: they get its sequences one by one."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import nn


class Apart:
    """The modules of a model that carry state, and the lengths of the sequences in the row that the model computes."""

    def __init__(self, model: nn.Module) -> None:
        self.lengths: tuple[int, ...] = ()
        self.modules: list[str] = []
        for name, module in model.named_modules():
            inside = any(name.startswith(outer + ".") for outer in self.modules)
            if _carries(module) and not inside:
                module.forward = self._split(module.forward)
                self.modules.append(name)

    def _split(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a forward that calls another one for each sequence of its row [1, T, width]."""

        # A compiled layer would be compiled again for other lengths.
        @torch.compiler.disable  # type: ignore[untyped-decorator]
        @wraps(forward)
        def each(hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if len(self.lengths) < 2:
                return forward(hidden_states, *args, **kwargs)
            outs = [forward(h, *args, **kwargs) for h in hidden_states.split(self.lengths, 1)]
            if torch.is_tensor(outs[0]):
                return torch.cat(outs, 1)
            return (torch.cat([o[0] for o in outs], 1), *outs[0][1:])

        return each


def _carries(module: nn.Module) -> bool:
    """Reports whether a module reads tokens before its own: it has a convolution along the row or a state that decays. The
    names of families do not matter."""
    return hasattr(module, "A_log") or any(isinstance(child, nn.Conv1d) for child in module.children())
