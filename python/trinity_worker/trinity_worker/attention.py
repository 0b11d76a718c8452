"""Causal attention over a packed row, without padding and without a mask of T² entries.

A row has branches, which are sequences without the stems that they share with those before them. A branch sees its own
rows and its stem's.
"""

import inspect
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import embedding, scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface

from .sequence import Part
from .tree import Tree

all_at_once: Any = None
with suppress(ImportError):  # before torch 2.10
    from torch.nn.attention.varlen import varlen_attn

    all_at_once = varlen_attn

NAME = "trinity_packed"
# The kernel for all sequences at once exists for GPUs since Ampere, in this type; torch 2.10 has no windows yet.
PARAMETERS = inspect.signature(all_at_once).parameters if all_at_once is not None else {}
HAS_WINDOWS, HAS_GROUPS = "window_size" in PARAMETERS, "enable_gqa" in PARAMETERS
LARGEST_HEAD = 256
# What models pass besides, which changes nothing here: rows have no padding and no cache, and dropout is off.
IGNORED = frozenset(
    (
        "cache", "cache_position", "dropout", "is_causal", "output_attentions", "output_hidden_states",
        "output_router_logits", "past_key_values", "position_embeddings", "position_ids", "return_dict", "use_cache",
    )
)  # fmt: skip


class Row:
    """What attention knows of a row: where its branches end, and where the rows lie that they see."""

    def __init__(
        self,
        tree: Tree,
        ends: torch.Tensor,
        path_ends: torch.Tensor | None = None,
        paths: torch.Tensor | None = None,
    ) -> None:
        """ends [branches + 1] is where branches end, after a 0; path_ends the same of their paths, in paths, which has the
        rows of all paths, one after another. There are no paths if no branch has a stem."""
        self.part: Part | None = None  # this rank's, if several hold the row
        self.tree, self.ends, self.paths = tree, ends.int(), paths
        self.path_ends = None if path_ends is None else path_ends.int()
        # Rounded up, because a compiled layer is compiled again for each value.
        self.longest = _rounded(max(b.end - b.begin for b in tree.branches))
        self.longest_path = _rounded(max(len(b.path) for b in tree.branches))
        self.pieces = [(b, *tree.pieces_of(b)) for b in tree.branches]
        self.masks: dict[tuple[int, int | None], torch.Tensor | None] = {}

    def mask(self, number: int, window: int | None) -> torch.Tensor | None:
        """Returns which rows of its path each row of a branch sees; None if these are all rows before it."""
        key = number, window
        if key not in self.masks:
            self.masks[key] = self._mask(number, window)
        return self.masks[key]

    def _mask(self, number: int, window: int | None) -> torch.Tensor | None:
        branch = self.tree.branches[number]
        seen = len(branch.path)
        narrow = window is not None and seen > window
        if not branch.stem and not narrow:
            return None
        mask = torch.ones(seen - branch.stem, seen, dtype=torch.bool, device=self.ends.device).tril(branch.stem)
        return mask.triu(branch.stem + 1 - window) if window is not None and narrow else mask


def _rounded(n: int) -> int:
    return 1 << (n - 1).bit_length()


def numbers(tree: Tree) -> list[np.ndarray]:
    """Returns the arrays that a Row of a tree needs on the device, in the order of its parameters."""
    ends = np.array([0, *(b.end for b in tree.branches)])
    if not tree.shared:
        return [ends]
    return [
        ends,
        np.cumsum([0, *(len(b.path) for b in tree.branches)]),
        np.concatenate([b.path for b in tree.branches]),
    ]


def packed_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    trinity_row: Row | None = None,
    s_aux: torch.Tensor | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Returns the attention [1, T, heads, D] of query [1, heads, T, D]. Of a row that several ranks hold, T tokens are
    this rank's. s_aux [heads] are the logits of sinks."""
    assert trinity_row is not None
    _refuse(others)
    if trinity_row.part is not None:
        return _of_part(query, key, value, scaling, sliding_window, trinity_row, s_aux, trinity_row.part), None
    return _attend(query, key, value, scaling, sliding_window, trinity_row, s_aux), None


def _refuse(others: dict[str, Any]) -> None:
    """Requires that attention without these arguments is the same."""
    unknown = sorted(k for k, v in others.items() if v is not None and k not in IGNORED)
    if unknown:
        raise ValueError(f"its attention has the arguments {', '.join(unknown)}, which this worker does not compute")
    if others.get("is_causal") is False or others.get("dropout"):
        raise ValueError("its attention is not causal or drops out, which this worker does not compute")


def _of_part(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scaling: float | None,
    window: int | None,
    row: Row,
    sinks: torch.Tensor | None,
    part: Part,
) -> torch.Tensor:
    query, key, value = part.to_heads(query, key, value)
    mine = None if sinks is None else part.of_heads(sinks)
    return part.to_tokens(_attend(query, key, value, scaling, window, row, mine))


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scaling: float | None,
    window: int | None,
    row: Row,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    if sinks is None and _takes_all(query, scaling):
        return _at_once(query, key, value, window, row)
    return _by_branch(query, key, value, scaling, window, row, sinks)


def _takes_all(query: torch.Tensor, scaling: float | None) -> bool:
    """Reports whether one call of a kernel can compute all branches of a row."""
    if not (HAS_WINDOWS and query.is_cuda and query.dtype == torch.bfloat16):
        return False
    head = query.shape[3]
    usual = scaling is None or scaling == head**-0.5
    return usual and head % 8 == 0 and head <= LARGEST_HEAD and _recent(query.device)


@cache
def _recent(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device) >= (8, 0)


def _at_once(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, window: int | None, row: Row) -> torch.Tensor:
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    options: dict[str, Any] = {"window_size": (-1 if window is None else window - 1, 0)}
    if q.shape[1] != k.shape[1]:
        if HAS_GROUPS:
            options["enable_gqa"] = True
        else:
            shared = q.shape[1] // k.shape[1]
            k, v = k.repeat_interleave(shared, dim=1), v.repeat_interleave(shared, dim=1)
    if row.paths is None or row.path_ends is None:
        return all_at_once(q, k, v, row.ends, row.ends, row.longest, row.longest, **options)[None]
    # The kernel aligns the last row of a branch with the last one of its path.
    k, v = (embedding(row.paths, x.flatten(1)).unflatten(1, x.shape[1:]) for x in (k, v))
    return all_at_once(q, k, v, row.ends, row.path_ends, row.longest, row.longest_path, **options)[None]


@torch.compiler.disable  # type: ignore[untyped-decorator]  # a compiled layer would be compiled again for other lengths
def _by_branch(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scaling: float | None,
    window: int | None,
    row: Row,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    grouped = query.shape[1] != key.shape[1]
    q, k, v = (x.split(row.tree.pieces, dim=2) for x in (query, key, value))
    parts = []
    for number, (_, own, path) in enumerate(row.pieces):
        mask = row.mask(number, window)
        if sinks is not None:
            parts.append(_with_sinks(_joined(q, own), _joined(k, path), _joined(v, path), mask, scaling, sinks))
            continue
        parts.append(
            scaled_dot_product_attention(
                _joined(q, own),
                _joined(k, path),
                _joined(v, path),
                attn_mask=mask,
                is_causal=mask is None,
                scale=scaling,
                enable_gqa=grouped,
            )
        )
    return torch.cat(parts, dim=2).transpose(1, 2)


def _with_sinks(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    scaling: float | None,
    sinks: torch.Tensor,
) -> torch.Tensor:
    """Returns the attention of a branch. Each head has one logit more, whose probability goes nowhere."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    logits = q @ k.transpose(2, 3) * (q.shape[3] ** -0.5 if scaling is None else scaling)
    if mask is None:
        mask = torch.ones(logits.shape[2:], dtype=torch.bool, device=q.device).tril()
    sink = sinks.to(logits.dtype)[None, :, None, None].expand(-1, -1, logits.shape[2], 1)
    logits = torch.cat([logits.masked_fill(~mask, float("-inf")), sink], -1)
    return torch.softmax(logits, -1, dtype=torch.float32)[..., :-1].to(v.dtype) @ v


def _joined(pieces: tuple[torch.Tensor, ...], places: list[int]) -> torch.Tensor:
    return pieces[places[0]] if len(places) == 1 else torch.cat([pieces[p] for p in places], dim=2)


def _no_mask(*args: Any, **kwargs: Any) -> None:
    return None


AttentionInterface.register(NAME, packed_attention)
AttentionMaskInterface.register(NAME, _no_mask)
