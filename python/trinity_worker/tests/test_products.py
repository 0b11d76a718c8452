"""Products in bfloat16 on one rank, and the attention of all sequences at once."""

import itertools

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from trinity_worker import attention

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


def each(q, k, v, q_ends, k_ends, q_longest, k_longest, *, window_size):
    """Computes what torch.nn.attention.varlen.varlen_attn does, which needs a GPU."""
    assert q.dtype == torch.bfloat16 and q.shape == k.shape == v.shape and q_ends.dtype == torch.int32
    assert torch.equal(q_ends, k_ends) and q_longest == k_longest == max(LENGTHS)
    parts = []
    for begin, end in itertools.pairwise(q_ends):
        n = int(end - begin)
        mask = torch.ones(n, n, dtype=torch.bool).tril(window_size[1])
        if window_size[0] >= 0:
            mask = mask.triu(-window_size[0])
        one = (x[begin:end].transpose(0, 1) for x in (q, k, v))
        parts.append(scaled_dot_product_attention(*one, attn_mask=mask).transpose(0, 1))
    return torch.cat(parts)


@pytest.mark.parametrize("window", [None, 3])
def test_attention_at_once_is_that_of_each_sequence(monkeypatch, window) -> None:
    torch.manual_seed(0)
    total = sum(LENGTHS)
    q, k, v = (torch.randn(1, heads, total, 8, dtype=torch.bfloat16) for heads in (4, 2, 2))
    ends = torch.tensor([0, *np.cumsum(LENGTHS)], dtype=torch.int32)
    args = {"scaling": 8**-0.5, "sliding_window": window, "trinity_lengths": LENGTHS, "trinity_ends": ends}
    apart, _ = attention.packed_attention(torch.nn.Module(), q, k, v, None, **args)
    calls = []
    monkeypatch.setattr(attention, "_takes_all", lambda *a: True)
    monkeypatch.setattr(attention, "all_at_once", lambda *a, **b: (calls.append(1), each(*a, **b))[1])
    at_once, _ = attention.packed_attention(torch.nn.Module(), q, k, v, None, **args)
    assert calls and at_once.shape == apart.shape == (1, total, 4, 8)
    assert torch.allclose(at_once.float(), apart.float(), atol=2e-2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the kernel needs a GPU")
@pytest.mark.parametrize("window", [None, 3, 64])
@pytest.mark.parametrize("head", [64, 128])
def test_the_kernel_and_its_gradient_are_those_of_each_sequence(monkeypatch, window, head) -> None:
    torch.manual_seed(0)
    lengths = (5, 1, 300, 77)
    ends = torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32, device="cuda")
    args = {"sliding_window": window, "trinity_lengths": lengths, "trinity_ends": ends}
    drawn = [torch.randn(1, heads, sum(lengths), head, device="cuda") for heads in (8, 2, 2, 8)]

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
    for got, apart, want in zip(at_once, results(torch.bfloat16), exact, strict=True):
        off, off_apart = ((x.double() - want).norm() / want.norm() for x in (got, apart))
        assert off < 1e-2 and off < 2 * off_apart


def test_kernel_for_all_sequences_is_left_alone_where_it_cannot_compute() -> None:
    q = torch.zeros(1, 2, 4, 8, dtype=torch.bfloat16)
    assert not attention._takes_all(q, None)  # on a CPU
