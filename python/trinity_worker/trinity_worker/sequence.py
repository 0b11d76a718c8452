"""Sequence parallel: each of n ranks holds a part of a row, and inside attention the whole row for a part of the heads
(Jacobs et al. 2023)."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.functional import pad


@dataclass(frozen=True)
class Parts:
    """The ranks that hold the parts of a row, and the number of this one's."""

    group: Any
    ranks: int
    number: int


class Part:
    """This rank's part of a row. All parts have one width, so the last ones may end with padding."""

    def __init__(self, parts: Parts, size: int) -> None:
        self.parts, self.size = parts, size
        self.width = width(size, parts.ranks)
        self.begin = parts.number * self.width

    def of(self, row: np.ndarray) -> np.ndarray:
        """Returns the part of an array with one entry for each token of the row; padding is 0."""
        mine = row[self.begin : self.begin + self.width]
        return np.pad(mine, (0, self.width - len(mine)))

    def to_heads(self, *states: torch.Tensor) -> list[torch.Tensor]:
        """Returns queries, keys and values [1, heads / n, tokens, D] of the whole row, from the part's [1, heads, width, D]."""
        n = self.parts.ranks
        # A head of keys that more ranks need than one goes to each of them.
        states = tuple(x.repeat_interleave(math.lcm(x.shape[1], n) // x.shape[1], dim=1) for x in states)
        cut = [x.chunk(n, dim=1) for x in states]
        joined = torch.cat([c[rank] for rank in range(n) for c in cut], dim=1)
        whole = Exchange.apply(joined, self.parts.group)[:, :, : self.size]
        return list(whole.split([x.shape[1] // n for x in states], dim=1))

    def of_heads(self, numbers: torch.Tensor) -> torch.Tensor:
        """Returns those of this rank's heads, from one number for each head of queries."""
        return numbers.chunk(self.parts.ranks)[self.parts.number]

    def to_tokens(self, attended: torch.Tensor) -> torch.Tensor:
        """Returns the part's [1, width, heads, D], from the whole row's [1, tokens, heads / n, D]."""
        more = self.parts.ranks * self.width - self.size
        return Exchange.apply(pad(attended, (0, 0, 0, 0, 0, more)), self.parts.group)

    def whole(self, states: torch.Tensor) -> torch.Tensor:
        """Returns the states [tokens, E] of the whole row. What all ranks compute of them counts once in their gradient."""
        return Gather.apply(states, self.parts)[: self.size]


def width(size: int, ranks: int) -> int:
    return -(-size // ranks)


class Exchange(torch.autograd.Function):
    """Cuts dimension 1 over the ranks, and joins what they send along dimension 2. Its gradient goes the other way."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.group = group
        return _exchange(x, group, 1, 2)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _exchange(gradient, ctx.group, 2, 1), None


def _exchange(x: torch.Tensor, group: Any, cut: int, join: int) -> torch.Tensor:
    given = torch.stack(x.chunk(dist.get_world_size(group), cut))
    got = torch.empty_like(given)
    dist.all_to_all_single(got, given, group=group)
    return torch.cat(got.unbind(), join)


class Gather(torch.autograd.Function):
    """Joins the parts of all ranks. Each rank's gradient is that of its part."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, parts: Parts) -> torch.Tensor:
        ctx.parts = parts
        all = [torch.empty_like(x) for _ in range(parts.ranks)]
        dist.all_gather(all, x.contiguous(), group=parts.group)
        return torch.cat(all)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient.chunk(ctx.parts.ranks)[ctx.parts.number], None
