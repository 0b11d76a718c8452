"""Adapters of the experts of a mixture. PEFT adds B·A to the stacked weights of all experts, which takes the memory of these
once more for each layer whose activations are kept. Here a token's row goes through the A and B of its experts.

PEFT wraps the module of the experts once for each tensor that it adapts, and this module keeps its wrappers, because its files
have their names. Rows of A are ordered by expert, columns of B by rank and then by expert.
"""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import pad
from transformers.integrations.moe import _grouped_linear

from .loading import ADAPTER
from .wire import BadRequest

STACKED = ("gate_up_proj", "down_proj")
ALIGNED = 8  # columns of a product of groups on a GPU are a multiple of it


def attach(model: nn.Module, name: str) -> None:
    """Has the adapted experts of a model computed here. It refuses experts that compute otherwise than this module."""
    wrapped: list[Any] = [m for m in model.modules() if hasattr(m, "parameter_name") and hasattr(m, "lora_A")]
    inside = {id(m.base_layer) for m in wrapped}
    for outer in wrapped:
        if id(outer) in inside:
            continue
        experts: Any = outer.get_base_layer()
        plain = getattr(experts, "has_gate", False) and not (
            experts.is_transposed or experts.has_bias or experts.has_post_expert_norm
        )
        if not plain or any(getattr(experts, key, None) is None for key in STACKED):
            raise BadRequest(f"model {name}: this worker trains no adapters of experts of this kind")
        outer.forward = Forward(outer, experts)


class Forward:
    """Computes the experts inside of an adapter's wrappers."""

    def __init__(self, outer: Any, experts: Any) -> None:
        self.outer, self.experts = outer, experts
        self.of: dict[str, Any] = {}  # the wrappers, by the tensors that they adapt
        while outer is not experts:
            self.of[outer.parameter_name] = outer
            outer = outer.base_layer

    def __call__(self, states: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        if self.outer.disable_adapters:
            return self.experts(states, chosen, weights)
        tokens, each = chosen.shape
        order = chosen.flatten().argsort(stable=True)  # pairs of a token and an expert, by expert
        counts = torch.zeros(self.experts.num_experts, dtype=torch.int32, device=states.device)
        counts.scatter_add_(0, chosen.flatten(), torch.ones_like(order, dtype=torch.int32))
        ends = counts.cumsum(0, dtype=torch.int32)
        hidden = self.experts._apply_gate(self._linear(STACKED[0], states[order // each], ends))
        out = self._linear(STACKED[1], hidden, ends) * weights.flatten()[order, None]
        back = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
        return out[back].view(tokens, each, -1).sum(1).to(states.dtype)

    def _linear(self, name: str, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """Returns the products of pairs with a stacked tensor and its adapter."""
        y = _grouped_linear(x, getattr(self.experts, name), ends)
        if (adapted := self.of.get(name)) is None:
            return y
        n = self.experts.num_experts
        a, b = adapted.lora_A[ADAPTER].weight, adapted.lora_B[ADAPTER].weight
        a, b = a.view(n, -1, a.shape[1]), b.view(len(b), -1, n).permute(2, 0, 1)
        if more := -a.shape[1] % ALIGNED:
            a, b = pad(a, (0, 0, 0, more)), pad(b, (0, more))
        low = _grouped_linear(x, a.contiguous(), ends) * adapted.scaling[ADAPTER]
        return y + _grouped_linear(low, b.contiguous(), ends)
