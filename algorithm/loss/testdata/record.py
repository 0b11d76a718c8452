"""Records losses, gradients and metrics of the formulas, written anew in PyTorch (float64, autograd) over padded tensors.

Run: python record.py > torch.json
"""
import json
import math
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
        return v.sum() / max(len(s["mask"]) - s["prompt_len"] for s, k in zip(batch, n) if k > 0)
    raise ValueError(mode)


def mean(x, mask=None):
    return float(aggregate(x.detach().double(), "token-mean", mask))


def seq_mean(x):
    return (x * M).sum(1, keepdim=True) / N.clamp(min=1)[:, None]


def log_ratio(lp):
    return torch.clamp(lp - OLD, -20, 20)


def ppo(lp, a, mask=None):
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
    metrics = {
        "ppo_kl": mean(-d, mask),
        "pg_clipfrac": mean(l2 > l1, mask),
        "pg_clipfrac_lower": mean((upper > l3) & (ADV < 0), mask),
    }
    if a.get("enable_sequence_masking"):
        drift = (-d.detach() * M).sum(1) / N.clamp(min=1)
        drop = (ADV < 0) & (drift[:, None] > a.get("delta_sequence_masking", 0.1))
        loss = torch.where(drop, torch.zeros_like(loss), loss)
        metrics["seq_mask/masked_tokens"] = mean(drop)
        metrics["seq_mask/mean_sequence_kl"] = float(drift.sum() / (N > 0).sum())
    total = aggregate(loss, mode, mask)
    metrics["pg_loss"] = float(total.detach())
    return total, mode, metrics


def sft(lp, a, mask=None):
    mode = a.get("loss_agg_mode", "token-mean")
    total = aggregate(-lp, mode, mask)
    return total, mode, {"sft_loss": float(total.detach())}


def finish(loss, name, metrics, a, default="token-mean"):
    """Aggregates values per token and adds the total to the metrics."""
    mode = a.get("loss_agg_mode", default)
    total = aggregate(loss, mode)
    return total, mode, {name: float(total.detach()), **metrics}


def gspo(lp, a):
    low = a.get("clip_range_low", a.get("clip_range", 3e-4))
    high = a.get("clip_range_high", a.get("clip_range", 4e-4))
    s = torch.clamp(seq_mean(lp - OLD), -20, 20).detach()
    r = torch.exp(lp - lp.detach() + s)
    l1, l2 = -ADV * r, -ADV * torch.clamp(r, 1 - low, 1 + high)
    metrics = {"pg_clipfrac": mean(l2 > l1), "ppo_kl": mean(OLD - lp), "ppo_kl_seq": float(-s.sum() / (N > 0).sum())}
    return finish(torch.maximum(l1, l2), "pg_loss", metrics, a, "seq-mean-token-mean")


def cispo(lp, a):
    d = log_ratio(lp)
    r = torch.exp(d).detach()
    w = torch.clamp(r, 1 - a.get("clip_range_low", 1.0), 1 + a.get("clip_range_high", 0.28))
    gone = ((ADV > 0) & (r > 1 + a.get("mask_clip_range_high", 0.28))) | ((ADV < 0) & (r < 1 - a.get("mask_clip_range_low", 1.0)))
    keep = ~gone if a.get("enable_mask_clip") else torch.ones_like(gone)
    return finish(-ADV * w * keep * lp, "cispo_loss", {"ppo_kl": mean(-d), "unmasked_frac": mean(keep)}, a)


def sapo(lp, a):
    d = log_ratio(lp)
    r = torch.exp(d)
    tau = torch.where(ADV > 0, a.get("tau_pos", 1.0), a.get("tau_neg", 1.05))
    gate = 4 / tau * torch.sigmoid(tau * (r - 1))
    metrics = {"ppo_kl": mean(-d), "avg_soft_gate": mean(gate), "avg_ratio": mean(r), "pos_adv_frac": mean(ADV > 0)}
    return finish(-ADV * gate if a.get("differentiate_gate") else -ADV * gate.detach() * lp, "sapo_loss", metrics, a)


def topr(lp, a):
    r = torch.exp(log_ratio(lp)).detach()
    alpha = torch.where(ADV <= a.get("advantage_threshold", 0.0), torch.clamp(r, 0, 1), torch.ones_like(r))
    return finish(-alpha * ADV * lp, "topr_loss", {"avg_alpha": mean(alpha), "avg_ratio": mean(r)}, a)


def opmd(lp, a):
    return finish(-ADV * lp / (1 + a.get("tau", 1.0)), "opmd_loss", {}, a)


def sppo(lp, a):
    d, e = log_ratio(lp), a.get("epsilon", 0.3)
    r = torch.exp(d)
    keep = (r >= 1 / (1 + e)) & (r <= 1 + e)
    return finish(torch.where(keep, -ADV * d, 0), "pg_loss", {"pg_clipfrac": mean(~keep)}, a)


def importance_sampling(lp, a):
    d = log_ratio(lp)
    return finish(-ADV * torch.exp(d), "pg_loss", {"ratio/mean": mean(torch.exp(d)), "approx_kl": mean(-d)}, a)


def m2po(lp, a):
    c, threshold = a.get("log_ratio_clip", 20.0), a.get("m2_threshold", 0.04)
    x = lp - OLD
    trust = (M > 0) & (((ADV > 0) & (x > 0)) | ((ADV < 0) & (x < 0)))
    square = x.detach() ** 2
    rising = torch.sort(square[trust]).values
    running = torch.cumsum(rising, 0) / torch.arange(1, len(rising) + 1)
    beyond = (running > threshold).nonzero()
    gone = trust & (square >= rising[beyond[0, 0]]) if len(beyond) else torch.zeros_like(trust)
    kept = trust & ~gone
    r = torch.exp(x + (torch.clamp(x, -c, c) - x).detach())
    metrics = {"ppo_kl": mean(-x), "ratio/mean": mean(r), "m2po/m2_before": float(square[trust].mean()),
               "m2po/m2_after": float(square[kept].mean()) if kept.any() else 0.0, "m2po/masked_fraction": mean(gone), "m2po/trust_region_fraction": mean(trust)}
    return finish(torch.where(gone, 0, -ADV * r), "pg_loss", metrics, a)


def rec(lp, a):
    lo, hi, lo2, hi2 = (a.get("epsilon_" + k, v) for k, v in (("low", 0.2), ("high", 0.2), ("low_prime", 0.6), ("high_prime", 2.0)))
    mode, weight, regularizer = a.get("clip_mode", "none"), a.get("weight", "none"), a.get("regularizer", "none")
    A = ADV + (OLD - lp).detach() if a.get("fix_opd_advantage") else ADV
    r = torch.exp(log_ratio(lp)).detach()
    s = torch.exp(torch.clamp(seq_mean(lp - OLD), -20, 20)).detach().expand_as(lp)
    one_side = lambda r: ((A >= 0) & (r <= 1 + hi)) | ((A <= 0) & (r >= 1 - lo))
    two_side = (r >= 1 - lo) & (r <= 1 + hi)
    keep = {
        "none": torch.ones_like(lp) > 0,
        "one-side": one_side(r),
        "two-side": two_side,
        "ring": two_side | ((A >= 0) & (r <= 1 - lo2)) | ((A <= 0) & (r >= 1 + hi2)),
        "gspo-one-side": one_side(s),
    }[mode]
    W = {
        "none": A,
        "importance_sampling": A * r,
        "truncated_importance_sampling": A * torch.clamp(r, 1 - lo2, 1 + hi2),
        "gspo_importance_sampling": A * s,
        "advantage": A * torch.exp(torch.clamp(A / a.get("temp", 1.0), -20, 20)),
    }[weight]
    loss = torch.where(keep, -W * lp, 0)
    coef = a.get("regularizer_coef", 0.0)
    if regularizer == "k2":
        loss = loss + coef * (lp - OLD) ** 2
    if regularizer == "forward-kl":
        loss = loss - coef * lp
    return finish(loss, "pg_loss", {"pg_clipfrac": mean(~keep)}, a, "seq-mean-token-mean" if mode == "gspo-one-side" else "token-mean")


def sft_is(lp, a):
    return finish(-lp * torch.exp(lp).detach(), "sft_is_loss", {}, a)


def sft_phi(lp, a, mask=None):
    p = torch.exp(lp).detach()
    lp = torch.clamp(lp, max=math.log(a.get("cutoff_prob", 1.0)))
    mode = a.get("loss_agg_mode", "token-mean")
    total = aggregate(-lp * p * (1 - p), mode, mask)
    return total, mode, {"sft_phi_loss": float(total.detach())}


def mixed(lp, a, mu, expert_loss):
    mode = a.get("loss_agg_mode", "token-mean")
    clips = {k: v for k, v in a.items() if k.startswith("clip_range")}
    usual, _, usual_metrics = ppo(lp, dict(clips, loss_agg_mode=a.get("grpo_loss_agg_mode", mode)), M * USUAL)
    expert, _, expert_metrics = expert_loss(lp, dict(loss_agg_mode=a.get("sft_loss_agg_mode", mode)), M * (1 - USUAL))
    total = (1 - mu) * usual + mu * expert
    metrics = {"usual/" + k: v for k, v in usual_metrics.items()} | {"expert/" + k: v for k, v in expert_metrics.items()}
    return total, mode, {"loss": float(total.detach()), **metrics}


def mix(lp, a):
    return mixed(lp, a, a.get("mu", 0.1), sft)


def mix_chord(lp, a):
    warm, decay, peak, valley = (a.get("mu_" + k, v) for k, v in (("warmup_steps", 0), ("decay_steps", 0), ("peak", 0.1), ("valley", 0.1)))
    if STEP < warm:
        mu = peak * STEP / warm
    elif STEP >= warm + decay:
        mu = valley
    else:
        mu = valley + (peak - valley) * 0.5 * (1 + math.cos(math.pi * (STEP - warm) / decay))
    total, mode, metrics = mixed(lp, a, mu, sft_phi if a.get("enable_phi_function", True) else sft)
    return total, mode, {**metrics, "mu": mu}


POLICY = dict(ppo=ppo, sft=sft, gspo=gspo, cispo=cispo, sapo=sapo, topr=topr, opmd=opmd, sppo=sppo, importance_sampling=importance_sampling, m2po=m2po, rec=rec,
              sft_is=sft_is, sft_phi=sft_phi, mix=mix, mix_chord=mix_chord)
STEP = 5  # of the trainer


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
    total, mode, metrics = POLICY[policy](lp, args)
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
cases += [record(name, policy=name) for name in POLICY if name not in ("ppo", "sft")]
cases += [record(p + " " + m, policy=p, args=dict(loss_agg_mode=m)) for m in modes for p in ("gspo", "rec", "m2po", "mix")]
cases += [record("gspo clip_range", policy="gspo", args=dict(clip_range=0.2)), record("gspo low", policy="gspo", args=dict(clip_range_low=0.3, loss_agg_mode="token-mean"))]
cases += [record("cispo low", policy="cispo", args=dict(clip_range_low=0.2, clip_range_high=0.5)),
          record("cispo mask", policy="cispo", args=dict(enable_mask_clip=True, mask_clip_range_low=0.2, mask_clip_range_high=0.1))]
cases += [record("sapo paper", policy="sapo", args=dict(differentiate_gate=True)), record("sapo steep", policy="sapo", args=dict(tau_pos=2.0, tau_neg=3.0)),
          record("sapo steep, paper", policy="sapo", args=dict(tau_pos=2.0, tau_neg=3.0, differentiate_gate=True, loss_agg_mode="seq-mean-token-mean"))]
cases += [record("topr threshold", policy="topr", args=dict(advantage_threshold=0.5)), record("opmd tau 0", policy="opmd", args=dict(tau=0.0)),
          record("sppo narrow", policy="sppo", args=dict(epsilon=0.05, loss_agg_mode="seq-mean-token-sum"))]
cases += [record("m2po loose", policy="m2po", args=dict(m2_threshold=1e4)), record("m2po tight", policy="m2po", args=dict(m2_threshold=1e-9)),
          record("m2po clip", policy="m2po", args=dict(m2_threshold=0.5, log_ratio_clip=0.3))]
cases += [record("rec " + m, policy="rec", args=dict(clip_mode=m)) for m in ("one-side", "two-side", "ring", "gspo-one-side")]
cases += [record("rec " + w, policy="rec", args=dict(weight=w)) for w in ("importance_sampling", "truncated_importance_sampling", "advantage")]
cases += [record("rec gspo both", policy="rec", args=dict(clip_mode="gspo-one-side", weight="gspo_importance_sampling", epsilon_low=0.4, epsilon_high=0.6)),
          record("rec gspo-one-side with token ratios", policy="rec", args=dict(clip_mode="gspo-one-side", weight="importance_sampling", epsilon_high=3.0)),
          record("rec ring, narrow", policy="rec", args=dict(clip_mode="ring", epsilon_low=0.1, epsilon_high=0.1, epsilon_low_prime=0.2, epsilon_high_prime=0.3)),
          record("rec advantage, temp", policy="rec", args=dict(weight="advantage", temp=0.5)),
          record("rec k2", policy="rec", args=dict(clip_mode="two-side", regularizer="k2", regularizer_coef=0.3)),
          record("rec forward-kl", policy="rec", args=dict(clip_mode="one-side", regularizer="forward-kl", regularizer_coef=0.2)),
          record("rec opd", policy="rec", args=dict(fix_opd_advantage=True)), record("rec opd, clipped", policy="rec", args=dict(fix_opd_advantage=True, clip_mode="one-side"))]
cases += [record("sft_is sequences", policy="sft_is", args=dict(loss_agg_mode="seq-mean-token-mean")), record("sft_phi cutoff", policy="sft_phi", args=dict(cutoff_prob=0.4))]
cases += [record("mix mu", policy="mix", args=dict(mu=0.7, clip_range=0.1)),
          record("mix modes", policy="mix", args=dict(sft_loss_agg_mode="seq-mean-token-sum", grpo_loss_agg_mode="seq-mean-token-mean"), entropy="mix", entropy_args=dict(entropy_coef=0.1)),
          record("mix low, high", policy="mix", args=dict(clip_range_low=0.3, clip_range_high=0.5, sft_loss_agg_mode="seq-mean-token-mean"), kl="k2")]
cases += [record("mix_chord " + k, policy="mix_chord", args=dict(mu_warmup_steps=w, mu_decay_steps=d, mu_peak=0.9, mu_valley=0.05, enable_phi_function=phi))
          for k, w, d, phi in (("rising", 20, 10, True), ("falling", 2, 10, True), ("fallen", 2, 3, False), ("at the peak", 5, 4, False), ("no decay", 3, 0, True))]
print(json.dumps(dict(step=STEP, batch=batch, cases=cases), indent=None))
