"""Router replay: tokens have the experts that computed them when they were sampled, whatever their routers choose now."""

from typing import Any

import torch
from torch import nn


class Replay:
    """The routers of a model, and the experts of the row that the model computes. A router's probabilities at these experts
    are its weights, so it has a gradient."""

    def __init__(self, decoder: Any) -> None:
        self.routers: list[nn.Module] = [m for m in decoder.modules() if _routes(m)]
        self.given: list[torch.Tensor] = []  # of each router [T, k]; an expert below 0 is none
        # Tokens whose router would have chosen others, and all with given experts.
        self.counts: torch.Tensor | None = None
        self.counting = False
        for number, router in enumerate(self.routers):
            router.register_forward_hook(self._hook(number))

    def begin(self, experts: torch.Tensor | None, counting: bool) -> None:
        """Takes the experts [T, routers · k] of a row, or none. counting says whether the row's tokens count."""
        self.given = [] if experts is None else list(experts.chunk(len(self.routers), 1))
        self.counting = counting

    def chosen(self, number: int, logits: torch.Tensor, k: int) -> torch.Tensor:
        """Returns the experts [T, k] that a row's tokens had at a router."""
        return self._taken(number, logits.topk(k, -1).indices)

    def _taken(self, number: int, picked: torch.Tensor) -> torch.Tensor:
        """Returns the experts [T, k] of a row's tokens at a router that would pick others."""
        return torch.where(self.given[number] >= 0, self.given[number], picked) if self.given else picked

    def _hook(self, number: int) -> Any:
        def replaced(router: Any, _: Any, out: Any) -> Any:
            if not self.given:
                return out
            logits, free, picked = out
            experts = self._taken(number, picked)
            weights = torch.softmax(logits, -1, dtype=torch.float32).gather(-1, experts)
            if router.norm_topk_prob:
                weights = weights / weights.sum(-1, keepdim=True)
            if self.counting:
                changed = (experts.sort(-1).values != picked.sort(-1).values).any(-1)
                counts = torch.stack([changed.sum(), (self.given[number][:, 0] >= 0).sum()])
                self.counts = counts if self.counts is None else self.counts + counts
            return logits, weights.to(free.dtype), experts

        return replaced


def _routes(module: nn.Module) -> bool:
    """Reports whether a module is a router whose weights this worker knows: the softmax over all experts, at those of a
    token, which norm_topk_prob divides by their sum."""
    return all(hasattr(module, name) for name in ("top_k", "norm_topk_prob", "num_experts", "weight"))
