"""Records losses, gradients and metrics of the formulas, written anew in PyTorch (float64, autograd) over padded tensors.

Run: python record.py > torch.json
"""
import json
import random

import torch

random.seed(7)
torch.set_default_dtype(torch.float64)


def f32(x):
    return float(torch.tensor(x, dtype=torch.float32))


def sequence(prompt, flags, expert=False):
    T = prompt + len(flags)
    s = dict(prompt_len=prompt, mask=[False] * prompt + [bool(f) for f in flags], is_expert=expert)
    for name in ("logprob", "old", "ref", "advantage", "entropy"):
        s[name] = [0.0] * T
    adv = random.gauss(0, 1)
    for t in range(T):
        if not s["mask"][t]:
            continue
        lp = -random.expovariate(1.0) - 0.01
        s["logprob"][t] = f32(lp)
        s["old"][t] = f32(lp + random.gauss(0, 0.5))
        s["ref"][t] = f32(lp + random.gauss(0, 0.4))
        s["advantage"][t] = f32(adv + 0.1 * random.gauss(0, 1))
        s["entropy"][t] = f32(random.uniform(0, 3))
    return s


batch = [
    sequence(2, [1, 1, 1, 1]),
    sequence(3, [1, 0, 0, 1, 1, 1, 1]),
    sequence(1, [0, 0, 0]),  # nothing trained: counts for nothing
    sequence(2, [1, 1], expert=True),
    sequence(4, [1, 1, 1, 1, 1, 0]),
    sequence(1, [1]),
    sequence(2, [1, 1, 1, 0, 1], expert=True),
]
# the far ends: ratio above and below every clip, difference beyond ±20, result of low_var_kl beyond 10
for i, t, old, ref, adv in [(0, 3, 25.0, 4.0, -1.0), (0, 4, -26.0, -3.0, 1.5), (1, 6, -2.0, 1.0, -0.7), (1, 7, 2.0, -30.0, 0.9), (4, 5, -1.8, 30.0, -1.1), (4, 6, 1.5, 0.0, 0.8)]:
    s = batch[i]
    assert s["mask"][t]
    s["old"][t] = f32(s["logprob"][t] + old)
    s["ref"][t] = f32(s["logprob"][t] + ref)
    s["advantage"][t] = f32(adv)

width = max(len(s["mask"]) for s in batch)


def pad(name):
    return torch.tensor([[float(v) for v in s[name]] + [0.0] * (width - len(s[name])) for s in batch])


M = pad("mask")
OLD, REF, ADV = pad("old"), pad("ref"), pad("advantage")
N = M.sum(1)
LONGEST = max(len(s["mask"]) - s["prompt_len"] for s, n in zip(batch, N) if n > 0)
USUAL = torch.tensor([[0.0 if s["is_expert"] else 1.0] for s in batch])


def aggregate(v, mode, mask=None):
    mask = M if mask is None else mask
    n = mask.sum(1)
    seqs = (n > 0).sum()
    v = v * mask
    if mode == "token-mean":
        return v.sum() / mask.sum()
    if mode == "seq-mean-token-sum":
        return v.sum() / seqs
    if mode == "seq-mean-token-mean":
        return (v.sum(1) / n.clamp(min=1)).sum() / seqs
    if mode == "seq-mean-token-sum-norm":
        return v.sum() / LONGEST
    raise ValueError(mode)


def ppo(lp, a):
    mode = a.get("loss_agg_mode", "token-mean")
    low = a.get("clip_range_low", a.get("clip_range", 0.2))
    high = a.get("clip_range_high", a.get("clip_range", 0.2))
    c = a.get("clip_ratio_c", 3.0)
    d = lp - lp.detach() if a.get("fallback_to_policy_gradient") else torch.clamp(lp - OLD, -20, 20)
    r = torch.exp(d)
    l1, l2 = -ADV * r, -ADV * torch.clamp(r, 1 - low, 1 + high)
    upper = torch.maximum(l1, l2)
    l3 = -ADV * c
    loss = torch.where(ADV < 0, torch.minimum(upper, l3), upper)
    mean = lambda x: float(aggregate(x.double(), "token-mean"))
    metrics = {
        "ppo_kl": mean(-d.detach()),
        "pg_clipfrac": mean(l2 > l1),
        "pg_clipfrac_lower": mean((upper > l3) & (ADV < 0)),
    }
    if a.get("enable_sequence_masking"):
        drift = (-d.detach() * M).sum(1) / N.clamp(min=1)
        drop = (ADV < 0) & (drift[:, None] > a.get("delta_sequence_masking", 0.1))
        loss = torch.where(drop, torch.zeros_like(loss), loss)
        metrics["seq_mask/masked_tokens"] = mean(drop)
        metrics["seq_mask/mean_sequence_kl"] = float(drift.sum() / (N > 0).sum())
    total = aggregate(loss, mode)
    metrics["pg_loss"] = float(total.detach())
    return total, mode, metrics


def sft(lp, a):
    mode = a.get("loss_agg_mode", "token-mean")
    total = aggregate(-lp, mode)
    return total, mode, {"sft_loss": float(total.detach())}


def k3(lp):
    return torch.exp(REF - lp) - 1 - (REF - lp)


def low_var(lp):
    x = torch.clamp(REF - lp, -20, 20)
    return torch.clamp(torch.exp(x) - 1 - x, -10, 10)


KL = {
    "k1": lambda lp: lp - REF,
    "k2": lambda lp: 0.5 * (lp - REF) ** 2,
    "k3": k3,
    "low_var_kl": low_var,
    "abs": lambda lp: (lp - REF).abs(),
    "corrected_k3": lambda lp: torch.clamp(torch.exp(lp - OLD), 0, 2) * k3(lp),
}


def record(name, policy="ppo", args=None, kl="none", kl_args=None, entropy="none", entropy_args=None):
    lp, ent = pad("logprob").requires_grad_(), pad("entropy").requires_grad_()
    args, kl_args, entropy_args = args or {}, kl_args or {}, entropy_args or {}
    total, mode, metrics = {"ppo": ppo, "sft": sft}[policy](lp, args)
    if entropy != "none":
        e = aggregate(ent, mode, M * USUAL if entropy == "mix" else None)
        metrics["entropy_loss"] = float(e.detach())
        total = total - entropy_args.get("entropy_coef", 0.0) * e
    if kl != "none":
        k = aggregate(KL[kl](lp), mode)
        metrics["kl_loss"], metrics["kl_coef"] = float(k.detach()), kl_args.get("kl_coef", 0.001)
        total = total + metrics["kl_coef"] * k
    metrics["final_loss"] = float(total.detach())
    total.backward()
    grad = lambda x: [g[: len(s["mask"])] for g, s in zip(x.grad.tolist(), batch)] if x.grad is not None else None
    return dict(name=name, policy_loss_fn=policy, policy_loss_fn_args=args, kl_loss_fn=kl, kl_loss_fn_args=kl_args, entropy_loss_fn=entropy, entropy_loss_fn_args=entropy_args,
                metrics=metrics, logprob_grad=grad(lp), entropy_grad=grad(ent))


modes = ["token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]
cases = [
    record("ppo"),
    record("ppo clip_range", args=dict(clip_range=0.1)),
    record("ppo low, high", args=dict(clip_range_low=0.05, clip_range_high=0.6)),
    record("ppo high only", args=dict(clip_range_high=0.5)),
    record("ppo dual clip", args=dict(clip_ratio_c=1.2)),
    record("ppo no dual clip", args=dict(clip_ratio_c=1e12)),
    record("ppo sequence masking", args=dict(enable_sequence_masking=True)),
    record("ppo sequence masking, delta", args=dict(enable_sequence_masking=True, delta_sequence_masking=0.9)),
    record("ppo fallback", args=dict(fallback_to_policy_gradient=True)),
    record("ppo fallback, sequence masking", args=dict(fallback_to_policy_gradient=True, enable_sequence_masking=True)),
    record("everything", args=dict(clip_range_low=0.2, clip_range_high=0.28, enable_sequence_masking=True, loss_agg_mode="seq-mean-token-mean"),
           kl="k3", kl_args=dict(kl_coef=0.05), entropy="mix", entropy_args=dict(entropy_coef=0.02)),
]
cases += [record("ppo " + m, args=dict(loss_agg_mode=m), kl="k2", entropy="default", entropy_args=dict(entropy_coef=0.01)) for m in modes]
cases += [record("sft " + m, policy="sft", args=dict(loss_agg_mode=m)) for m in modes]
cases += [record("kl " + k, policy="sft", kl=k, kl_args=dict(kl_coef=0.3)) for k in KL]
cases += [record("entropy " + e, policy="sft", entropy=e, entropy_args=dict(entropy_coef=c)) for e in ("default", "mix") for c in (0.5, 0.0)]
print(json.dumps(dict(batch=batch, cases=cases), indent=None))
