"""The load-balancing loss against transformers', one sequence at a time."""

import torch
from transformers.models.qwen3_moe.modeling_qwen3_moe import load_balancing_loss_func

from trinity_worker.experts import imbalance


def test_rows_weigh_sequences_by_their_tokens() -> None:
    torch.manual_seed(1)
    lengths, layers, experts, chosen = (7, 1, 12), 3, 5, 2
    routers = tuple(torch.randn(sum(lengths), experts, requires_grad=True) for _ in range(layers))
    best = [r.topk(chosen, -1).indices for r in routers]
    imbalance(routers, lengths, best).backward()
    got = [r.grad for r in routers]
    for r in routers:
        r.grad = None
    at, want = 0, 0.0
    for n in lengths:
        if n > 1:  # the last token does not count
            parts = tuple(r[at : at + n - 1] for r in routers)
            want = want + (n - 1) * load_balancing_loss_func(parts, experts, chosen)
        at += n
    torch.testing.assert_close(imbalance(routers, lengths, best), want)
    want.backward()
    for a, r in zip(got, routers, strict=True):
        torch.testing.assert_close(a, r.grad)
