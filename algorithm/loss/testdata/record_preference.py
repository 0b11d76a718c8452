"""Records the losses over preferences, written from the papers' formulas in PyTorch (float64, autograd), one sequence at a time.

DPO: Rafailov et al. 2023, eq. 7; label smoothing: Mitchell 2023. KTO: Ethayarajh et al. 2024, eq. 8.
Run: python record_preference.py > preference.json
"""
import json
import random

import torch
import torch.nn.functional as F

random.seed(11)
torch.set_default_dtype(torch.float64)


def f32(x):
    return float(torch.tensor(x, dtype=torch.float32))


def draw():
    lp = -random.expovariate(1.0) - 0.01
    return f32(lp), f32(lp + random.gauss(0, 0.6))


def values(mask, shift=0.0):
    drawn = [draw() if m else (0.0, 0.0) for m in mask]
    return [f32(a + shift * (a != 0)) for a, _ in drawn], [b for _, b in drawn]


def sequence(prompt, flags, label, shift=0.0):
    mask = [False] * len(prompt) + [bool(f) for f in flags]
    tokens = prompt + [random.randrange(10, 90) for _ in flags]
    lp, ref = values(mask, shift)
    return dict(tokens=tokens, prompt_len=len(prompt), mask=mask, chosen=label, logprob=lp, ref=ref)


A, B, C = [1, 2, 3], [1, 4], [5]
pairs = [
    sequence(A, [1, 1, 1], True), sequence(A, [1, 1], False),
    sequence(B, [1], True, 20.0), sequence(B, [1, 0, 1, 1], False, -9.0),  # far on the right side
    sequence(C, [1, 1], True, -15.0), sequence(C, [1], False, 30.0),  # far on the wrong side
    sequence(A, [0, 0], True), sequence(A, [1, 1], False),  # one side has nothing to learn: no pair
    sequence(B, [1, 1, 1, 1], True), sequence(B, [0, 1, 1], False),
    sequence(C, [1, 1], True), sequence(C, [0], False),  # nor here
]
answers = [
    sequence(A, [1, 1, 1], True), sequence(A, [1, 1], False), sequence(B, [1], True, 25.0), sequence(C, [0, 0, 0, 0], True),
    sequence(C, [1, 0, 1, 1], False, -8.0), sequence(C, [1], True), sequence(B, [1, 1], False, 12.0),
]


def tensors(batch):
    return [torch.tensor(s["logprob"], requires_grad=True) for s in batch]


def ratio(lp, s):
    m = torch.tensor([float(x) for x in s["mask"]])
    return ((lp - torch.tensor(s["ref"])) * m).sum()


def likelihood(lp, s):
    return float((lp.detach() * torch.tensor([float(x) for x in s["mask"]])).sum())


def grads(lps):
    return [(x.grad if x.grad is not None else torch.zeros_like(x)).tolist() for x in lps]


def dpo(name, beta=0.1, label_smoothing=0.0):
    lps = tensors(pairs)
    losses, good, bad, right, ranked = [], [], [], [], []
    for i in range(0, len(pairs), 2):
        if not any(pairs[i]["mask"]) or not any(pairs[i + 1]["mask"]):
            continue
        w, l = ratio(lps[i], pairs[i]), ratio(lps[i + 1], pairs[i + 1])
        z = w - l
        losses.append(-(1 - label_smoothing) * F.logsigmoid(beta * z) - label_smoothing * F.logsigmoid(-beta * z))
        good.append(beta * float(w.detach()))
        bad.append(beta * float(l.detach()))
        right.append(float(z.detach() > 0))
        ranked.append(float(likelihood(lps[i], pairs[i]) > likelihood(lps[i + 1], pairs[i + 1])))
    loss = torch.stack(losses).mean()
    loss.backward()
    mean = lambda v: sum(v) / len(v)
    metrics = dict(dpo_loss=float(loss.detach()), final_loss=float(loss.detach()), chosen_reward=mean(good), rejected_reward=mean(bad))
    metrics.update(accuracy_mean=mean(right), ranking_accuracy=mean(ranked))
    return dict(name=name, policy_loss_fn="dpo", policy_loss_fn_args=dict(beta=beta, label_smoothing=label_smoothing), metrics=metrics, logprob_grad=grads(lps))


prompt = lambda s: s["tokens"][: s["prompt_len"]]
trained = sorted([s for s in answers if any(s["mask"])], key=lambda s: (prompt(s), s["tokens"]))
most = max(sum(prompt(s) == prompt(o) for o in trained) for s in trained)


def stranger(i):
    """The sequence that stands as many places on, round the batch, as the commonest prompt has answers; or the next after it with another prompt."""
    behind = [trained[(i + most + d) % len(trained)] for d in range(len(trained))]
    return next(s for s in behind if prompt(s) != prompt(trained[i]))


longest = max(len(s["tokens"]) for s in answers)
probes = []
for i, s in enumerate(trained):
    other, p = stranger(i), s["prompt_len"]
    tokens = (prompt(s) + other["tokens"][other["prompt_len"] :])[:longest]
    mask = ([False] * p + other["mask"][other["prompt_len"] :])[:longest]
    lp, ref = values(mask)
    probes.append(dict(tokens=tokens, prompt_len=p, mask=mask, chosen=False, logprob=lp, ref=ref))


def kto(name, shift=0.0, beta=0.1, desirable_weight=1.0, undesirable_weight=1.0):
    """shift moves every log-probability of the probes now, and so the KL."""
    lps = tensors(answers)
    kl = sum(sum(f32(a + shift) - b for a, b, m in zip(p["logprob"], p["ref"], p["mask"]) if m) for p in probes) / len(probes)
    z0 = max(0.0, kl)
    losses, good, bad = [], [], []
    for lp, s in zip(lps, answers):
        if not any(s["mask"]):
            continue
        r = ratio(lp, s)
        if s["chosen"]:
            losses.append(desirable_weight * (1 - torch.sigmoid(beta * (r - z0))))
            good.append(beta * float(r.detach()))
        else:
            losses.append(undesirable_weight * (1 - torch.sigmoid(beta * (z0 - r))))
            bad.append(beta * float(r.detach()))
    loss = torch.stack(losses).mean()
    loss.backward()
    mean = lambda v: sum(v) / len(v)
    metrics = {"kto_loss": float(loss.detach()), "final_loss": float(loss.detach()), "kl": z0, "rewards/chosen": mean(good), "rewards/rejected": mean(bad)}
    args = dict(beta=beta, desirable_weight=desirable_weight, undesirable_weight=undesirable_weight)
    return dict(name=name, policy_loss_fn="kto", policy_loss_fn_args=args, shift=shift, metrics=metrics, logprob_grad=grads(lps))


cases = [
    dpo("dpo"), dpo("dpo, beta", beta=2.5), dpo("dpo, conservative", label_smoothing=0.2), dpo("dpo, both", beta=0.5, label_smoothing=0.4),
    kto("kto"), kto("kto, KL above 0", shift=1.5), kto("kto, KL cut at 0", shift=-3.0),
    kto("kto, weights", shift=0.75, beta=0.7, desirable_weight=1.25, undesirable_weight=0.5), kto("kto, desirable alone", shift=0.5, undesirable_weight=0.0),
]
print(json.dumps(dict(pairs=pairs, answers=answers, probes=probes, cases=cases)))
