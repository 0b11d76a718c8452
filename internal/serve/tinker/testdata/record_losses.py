"""Records the losses of the Tinker API and their derivatives, by autograd of PyTorch. Prints tinker.json.

The formulas are those of the API's documentation: a sum over tokens of each datum. r = exp(lp - q).
"""

import json

import torch

torch.manual_seed(7)


def clip_surrogate(r, a, low, high):
    return -torch.min(r * a, r.clamp(low, high) * a)


def loss_of(name, lp, x, c):
    if name == "cross_entropy":
        return -(x["weights"] * lp).sum()
    a, log = x["advantages"], lp - x["logprobs"]
    r = log.exp()
    low, high = c.get("clip_low_threshold"), c.get("clip_high_threshold")
    if name == "importance_sampling":
        return -(r * a).sum()
    if name == "ppo":
        return clip_surrogate(r, a, low or 0.8, high or 1.2).sum()
    if name == "cispo":
        return -(r.clamp(low or 0.0, high or 4.0).detach() * lp * a).sum()
    if name == "dro":
        return -(lp * a - 0.5 * c.get("beta", 0.05) * log**2).sum()
    if name == "gspo":
        counted = x["sequence_ratio_mask"] != 0
        s = log[counted].mean().detach().exp()
        return clip_surrogate(s * (lp - lp.detach()).exp(), a, low or 0.8, high or 1.2).sum()
    if name == "trinity_ppo":
        mask, e, dual = x["mask"], c.get("clip_range", 0.2), c.get("clip_ratio_c", 3.0)
        plain = torch.max(-a * r, -a * r.clamp(1 - e, 1 + e))
        token = torch.where(a < 0, torch.min(plain, -a * dual), plain)
        if "ref_logprobs" in x:
            token = token + c.get("kl_coef", 0.001) * 0.5 * (lp - x["ref_logprobs"]) ** 2
        return (token * mask).sum() / mask.sum() / c["num_total_datums"]
    raise ValueError(name)


CASES = [
    ("cross_entropy", {}),
    ("importance_sampling", {}),
    ("ppo", {}),
    ("ppo", {"clip_low_threshold": 0.9, "clip_high_threshold": 1.5}),
    ("cispo", {}),
    ("cispo", {"clip_low_threshold": 0.7, "clip_high_threshold": 1.3}),
    ("dro", {}),
    ("dro", {"beta": 0.5}),
    ("gspo", {}),
    ("trinity_ppo", {"num_total_datums": 4.0}),
    ("trinity_ppo", {"num_total_datums": 3.0, "kl_coef": 0.2, "clip_range": 0.1, "clip_ratio_c": 1.5}),
]

records = []
for name, config in CASES:
    data = []
    for n in (1, 5, 12):
        lp = (-3 * torch.rand(n)).requires_grad_()
        x = {"logprobs": (lp.detach() + 0.6 * torch.randn(n)), "advantages": torch.randn(n)}
        if name == "cross_entropy":
            x = {"weights": torch.randn(n)}
        if name == "gspo":
            x["sequence_ratio_mask"] = torch.ones(n)
            x["sequence_ratio_mask"][n // 2 + 1 :] = 0
        if name == "trinity_ppo":
            x["mask"] = (torch.rand(n) < 0.8).float()
            x["mask"][0] = 1
            x["ref_logprobs"] = lp.detach() + 0.3 * torch.randn(n)
        loss = loss_of(name, lp, x, config)
        (grad,) = torch.autograd.grad(loss, lp)
        data.append({"logprob": lp.tolist(), "inputs": {k: v.tolist() for k, v in x.items()}, "loss": loss.item(), "grad": grad.tolist()})
    records.append({"loss_fn": name, "config": config, "data": data})
print(json.dumps(records))
