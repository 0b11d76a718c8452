"""Causal attention over a packed row, without padding and without a mask of T² entries."""

import inspect
from contextlib import suppress
from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface

all_at_once: Any = None
with suppress(ImportError):  # before torch 2.10
    from torch.nn.attention.varlen import varlen_attn

    all_at_once = varlen_attn

NAME = "trinity_packed"
# The kernel for all sequences at once exists for GPUs since Ampere, in this type; torch 2.10 has no windows yet.
HAS_WINDOWS = all_at_once is not None and "window_size" in inspect.signature(all_at_once).parameters
LARGEST_HEAD = 256


def packed_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    trinity_lengths: tuple[int, ...] = (),
    trinity_ends: torch.Tensor | None = None,
    **unused: Any,
) -> tuple[torch.Tensor, None]:
    """Returns the attention [1, T, heads, D] of query [1, heads, T, D]. trinity_lengths are the tokens of each sequence,
    trinity_ends [sequences + 1] their ends, after a 0."""
    if trinity_ends is not None and _takes_all(query, scaling):
        return _at_once(query, key, value, trinity_ends, max(trinity_lengths), sliding_window), None
    return _one_by_one(query, key, value, scaling, sliding_window, trinity_lengths), None


def _takes_all(query: torch.Tensor, scaling: float | None) -> bool:
    """Reports whether one call of a kernel can compute all sequences of a row."""
    if not (HAS_WINDOWS and query.is_cuda and query.dtype == torch.bfloat16):
        return False
    head = query.shape[3]
    usual = scaling is None or scaling == head**-0.5
    return usual and head % 8 == 0 and head <= LARGEST_HEAD and torch.cuda.get_device_capability(query.device) >= (8, 0)


def _at_once(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, ends: torch.Tensor, longest: int, window: int | None
) -> torch.Tensor:
    shared = query.shape[1] // key.shape[1]
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    if shared > 1:
        k, v = k.repeat_interleave(shared, dim=1), v.repeat_interleave(shared, dim=1)
    before = -1 if window is None else window - 1
    return all_at_once(q, k, v, ends, ends, longest, longest, window_size=(before, 0))[None]


def _one_by_one(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scaling: float | None,
    window: int | None,
    lengths: tuple[int, ...],
) -> torch.Tensor:
    grouped = query.shape[1] != key.shape[1]
    parts = []
    for q, k, v in zip(*(x.split(lengths, dim=2) for x in (query, key, value)), strict=True):
        mask, n = None, q.shape[2]
        if window is not None and n > window:
            ones = torch.ones(n, n, dtype=torch.bool, device=q.device)
            mask = ones.tril().triu(1 - window)
        parts.append(
            scaled_dot_product_attention(
                q, k, v, attn_mask=mask, is_causal=mask is None, scale=scaling, enable_gqa=grouped
            )
        )
    return torch.cat(parts, dim=2).transpose(1, 2)


def _no_mask(*args: Any, **kwargs: Any) -> None:
    return None


AttentionInterface.register(NAME, packed_attention)
AttentionMaskInterface.register(NAME, _no_mask)
