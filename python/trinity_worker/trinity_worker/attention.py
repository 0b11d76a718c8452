"""Causal attention over a packed row: one call of the kernel for each sequence, so no padding and no mask of T² entries."""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface

NAME = "trinity_packed"


def packed_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    trinity_lengths: tuple[int, ...] = (),
    **unused: Any,
) -> tuple[torch.Tensor, None]:
    """Returns the attention [1, T, heads, D] of query [1, heads, T, D]; trinity_lengths are the tokens of each sequence."""
    grouped = query.shape[1] != key.shape[1]
    parts = []
    for q, k, v in zip(*(x.split(trinity_lengths, dim=2) for x in (query, key, value)), strict=True):
        mask, n = None, q.shape[2]
        if sliding_window is not None and n > sliding_window:
            ones = torch.ones(n, n, dtype=torch.bool, device=q.device)
            mask = ones.tril().triu(1 - sliding_window)
        parts.append(
            scaled_dot_product_attention(
                q, k, v, attn_mask=mask, is_causal=mask is None, scale=scaling, enable_gqa=grouped
            )
        )
    return torch.cat(parts, dim=2).transpose(1, 2), None


def _no_mask(*args: Any, **kwargs: Any) -> None:
    return None


AttentionInterface.register(NAME, packed_attention)
AttentionMaskInterface.register(NAME, _no_mask)
