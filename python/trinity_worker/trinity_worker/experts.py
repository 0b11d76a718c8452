"""The load of experts and the load-balancing loss, in packed rows."""

import torch


def imbalance(routers: tuple[torch.Tensor, ...], lengths: tuple[int, ...], chosen: list[torch.Tensor]) -> torch.Tensor:
    """Returns the load-balancing loss (Fedus et al. 2022, equations 4 to 6) of a row, times the tokens of the step.

    routers are the logits [T, experts] of each layer, chosen the experts [T, k] of the tokens. The loss of a sequence is
    experts · Σᵢ fᵢ·Pᵢ: fᵢ is the share of its tokens that expert i gets, as a constant, and Pᵢ the mean probability. The
    loss of a step weighs sequences by their tokens, so it does not depend on the rows. The last token of a sequence does
    not count: it predicts nothing.
    """
    rows = torch.tensor(lengths, device=routers[0].device)
    ends = rows.cumsum(0)
    places = torch.arange(routers[0].shape[0], device=rows.device)
    of = torch.searchsorted(ends, places, right=True)
    member = (of == torch.arange(len(lengths), device=rows.device)[:, None]) & (places != ends[:, None] - 1)
    sums = member.float()  # [S, T]
    experts = routers[0].shape[1]
    load = torch.zeros(len(lengths), experts, device=rows.device)
    probability = torch.zeros_like(load)
    for logits, best in zip(routers, chosen, strict=True):
        p = torch.softmax(logits, -1, dtype=torch.float32)
        load += sums @ torch.zeros_like(p).scatter_(1, best, 1.0)
        probability = probability + sums @ p
    share = load / ((rows - 1).clamp(min=1)[:, None] * len(routers))
    return experts / len(routers) * (share * probability).sum()


@torch.no_grad()
def loads(routers: tuple[torch.Tensor, ...], lengths: tuple[int, ...], chosen: list[torch.Tensor]) -> torch.Tensor:
    """Returns the tokens [layers, experts] that each expert of a row gets. The last token of a sequence does not count."""
    ends = torch.tensor(lengths, device=routers[0].device).cumsum(0) - 1
    counts = torch.zeros(len(routers), routers[0].shape[1], dtype=torch.int64, device=ends.device)
    for layer, logits in enumerate(routers):
        best = torch.zeros_like(logits, dtype=torch.int64).scatter_(1, chosen[layer], 1)
        counts[layer] = best.index_fill_(0, ends, 0).sum(0)
    return counts
