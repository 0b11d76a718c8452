"""Copies of a model's weights in the type of its products, for the rows of one step."""

from typing import Any

import torch
from torch import nn

from .host import local


class Copy(torch.autograd.Function):
    """Gives copies of weights that exist already, and brings their gradients back in the type of the weights."""

    @staticmethod
    def forward(ctx: Any, copies: list[torch.Tensor], *weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.dtypes = [w.dtype for w in weights]
        return tuple(c.detach() for c in copies)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        given = [g for g in grads if g is not None]
        whole = iter(_copied(given, [d for d, g in zip(ctx.dtypes, grads, strict=True) if g is not None]))
        return None, *(None if g is None else next(whole) for g in grads)


class Copies:
    """The copies. A group of them, such as those of a layer, is one step of the graph, whose gradients exist together."""

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        self.groups: dict[str, list[str]] = {}
        weights = dict(model.named_parameters())
        for name in weights:
            layer = name.split(".layers.", 1)
            number = layer[1].split(".")[0] if len(layer) == 2 else name
            self.groups.setdefault(number, []).append(name)
        with torch.no_grad():
            copied = _copied(list(weights.values()), [dtype] * len(weights))
        self.tensors = dict(zip(weights, copied, strict=True))

    def of(self, model: nn.Module) -> dict[str, torch.Tensor]:
        """Returns the copies by name, with a graph that leads to the weights."""
        weights, all = dict(model.named_parameters()), dict(self.tensors)
        for names in self.groups.values():
            trained = [n for n in names if weights[n].requires_grad]  # the others' copies need no graph
            if trained:
                copies = Copy.apply([self.tensors[n] for n in trained], *(weights[n] for n in trained))
                all.update(zip(trained, copies, strict=True))
        return all


def _copied(tensors: list[torch.Tensor], dtypes: list[torch.dtype]) -> list[torch.Tensor]:
    """Returns copies of tensors in other types, with few launches on a GPU."""
    copies = [torch.empty_like(t, dtype=d) for t, d in zip(tensors, dtypes, strict=True)]
    if copies:  # where neighbours divide matrices, norms are whole tensors
        torch._foreach_copy_([local(c) for c in copies], [local(t) for t in tensors])
    return copies
