"""Products in bfloat16 on one rank, and the attention of all sequences at once."""

import itertools

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from trinity_worker import attention
from trinity_worker.batch import upload
from trinity_worker.tree import Tree

LENGTHS = (5, 1, 7)


def batch() -> dict:
    lengths = np.array(LENGTHS, np.int32)
    mask = np.ones(lengths.sum(), np.uint8)
    mask[np.cumsum(lengths) - lengths] = 0  # of each first token
    tokens = np.arange(lengths.sum(), dtype=np.int32) % 16
    ones = np.ones(len(lengths), np.float32)
    return {
        "tokens": tokens, "lengths": lengths, "rank": np.zeros(len(lengths), np.int32), "mask": mask, "temperature": ones
    }  # fmt: skip


def trained(open_tiny, name: str, **spec):
    """Returns the streams and gradients of a model."""
    m = open_tiny(name, train=True, optimizer={"type": "adamw"}, compute="bfloat16", **spec)
    got, _ = m.forward(batch(), {"streams": ["logprob", "entropy"], "hold": True}, {})
    m.backward({"d_logprob": np.arange(13, dtype=np.float32)}, 13)
    grads = {n: p.grad.full_tensor() if hasattr(p.grad, "full_tensor") else p.grad for n, p in m.trained.items()}
    return got, grads


def test_copy_of_the_weights_computes_as_fsdp(open_tiny) -> None:
    streams, grads = trained(open_tiny, "copy")
    of_fsdp, of_fsdp_grads = trained(open_tiny, "fsdp", recompute=1)
    assert all(g.dtype == torch.float32 and torch.isfinite(g).all() and g.abs().max() > 0 for g in grads.values())
    for name, got in streams.items():
        assert np.array_equal(got, of_fsdp[name]), name
    for name, grad in grads.items():
        assert torch.equal(grad, of_fsdp_grads[name]), name
    exact = open_tiny("exact", train=True, optimizer={"type": "adamw"})
    whole, _ = exact.forward(batch(), {"streams": ["logprob"]}, {})
    assert not np.array_equal(whole["logprob"], streams["logprob"])  # bfloat16 was used


def each(q, k, v, q_ends, k_ends, q_longest, k_longest, *, window_size, enable_gqa=False):
    """Computes what torch.nn.attention.varlen.varlen_attn does, which needs a GPU: the last query sees the last key."""
    assert q.dtype == torch.bfloat16 and k.shape == v.shape and q_ends.dtype == k_ends.dtype == torch.int32
    assert enable_gqa == (q.shape[1] != k.shape[1])
    assert (q_ends.diff() <= q_longest).all() and (k_ends.diff() <= k_longest).all()
    parts = []
    for (begin, end), (first, last) in zip(itertools.pairwise(q_ends), itertools.pairwise(k_ends), strict=True):
        n, m = int(end - begin), int(last - first)
        mask = torch.ones(n, m, dtype=torch.bool).tril(m - n + window_size[1])
        if window_size[0] >= 0:
            mask = mask.triu(m - n - window_size[0])
        one = (x[lo:hi].transpose(0, 1) for x, lo, hi in ((q, begin, end), (k, first, last), (v, first, last)))
        parts.append(scaled_dot_product_attention(*one, attn_mask=mask, enable_gqa=enable_gqa).transpose(0, 1))
    return torch.cat(parts)


def row_of(sequences: list[np.ndarray], device: str = "cpu") -> attention.Row:
    tree = Tree(sequences)
    return attention.Row(tree, *upload(attention.numbers(tree), torch.device(device)))


def apart(*lengths: int) -> list[np.ndarray]:
    """Returns sequences that share nothing."""
    return [np.full(n, i, np.int32) for i, n in enumerate(lengths)]


def branching() -> list[np.ndarray]:
    """Returns sequences with stems of stems, one that ends where others part, one twice, and one alone."""
    r = np.random.default_rng(0)
    stem, inner = r.integers(0, 16, 20, np.int32), r.integers(0, 16, 9, np.int32)
    tails = [r.integers(0, 16, n, np.int32) for n in (3, 7, 1, 5)]
    deep = np.concatenate([stem, inner, tails[1]])
    return [
        np.concatenate([stem, tails[0]]), deep, tails[3], np.concatenate([stem, inner, tails[2]]), deep.copy(), stem,
        np.concatenate([deep, tails[3]]),
    ]  # fmt: skip


@pytest.mark.parametrize("window", [None, 3, 24])
@pytest.mark.parametrize("sequences", [apart(5, 1, 7), branching()], ids=["apart", "branching"])
def test_attention_at_once_is_that_of_each_branch(monkeypatch, sequences, window) -> None:
    torch.manual_seed(0)
    row = row_of(sequences)
    q, k, v = (torch.randn(1, heads, row.tree.size, 8, dtype=torch.bfloat16) for heads in (4, 2, 2))
    args = {"scaling": 8**-0.5, "sliding_window": window, "trinity_row": row}
    each_branch, _ = attention.packed_attention(torch.nn.Module(), q, k, v, None, **args)
    calls = []
    monkeypatch.setattr(attention, "_takes_all", lambda *a: True)
    monkeypatch.setattr(attention, "HAS_GROUPS", True)
    monkeypatch.setattr(attention, "all_at_once", lambda *a, **b: (calls.append(1), each(*a, **b))[1])
    at_once, _ = attention.packed_attention(torch.nn.Module(), q, k, v, None, **args)
    assert calls and at_once.shape == each_branch.shape == (1, row.tree.size, 4, 8)
    assert torch.allclose(at_once.float(), each_branch.float(), atol=2e-2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the kernel needs a GPU")
@pytest.mark.parametrize("window", [None, 3, 64])
@pytest.mark.parametrize("head", [64, 128])
@pytest.mark.parametrize("sequences", [apart(5, 1, 300, 77), branching()], ids=["apart", "branching"])
def test_the_kernel_and_its_gradient_are_those_of_each_branch(monkeypatch, sequences, window, head) -> None:
    torch.manual_seed(0)
    args = {"sliding_window": window, "trinity_row": row_of(sequences, "cuda")}
    drawn = [torch.randn(1, heads, args["trinity_row"].tree.size, head, device="cuda") for heads in (8, 2, 2, 8)]

    def results(dtype: torch.dtype) -> list[torch.Tensor]:
        *qkv, d = (x.to(dtype) for x in drawn)
        for x in qkv:
            x.requires_grad_()
        out, _ = attention.packed_attention(torch.nn.Module(), *qkv, None, **args)
        out.backward(d.transpose(1, 2))
        return [out, *(x.grad for x in qkv)]

    assert attention._takes_all(drawn[0].bfloat16(), None)
    at_once, exact = results(torch.bfloat16), results(torch.float64)
    monkeypatch.setattr(attention, "_takes_all", lambda *a: False)
    for got, single, want in zip(at_once, results(torch.bfloat16), exact, strict=True):
        off, off_single = ((x.double() - want).norm() / want.norm() for x in (got, single))
        assert off < 1e-2 and off < 2 * off_single


def test_kernel_for_all_sequences_is_left_alone_where_it_cannot_compute() -> None:
    q = torch.zeros(1, 2, 4, 8, dtype=torch.bfloat16)
    assert not attention._takes_all(q, None)  # on a CPU
