"""Records the advantages of random batches, the formulas written anew in PyTorch (float64). grpo is in record.py.

Run: python record_batch.py > batch.json
"""
import json
import random

import torch

random.seed(5)
torch.set_default_dtype(torch.float64)
tensor = torch.tensor


def f32(x):
    return float(torch.tensor(x, dtype=torch.float32))


def experience(task, run, turn=0, **more):
    n = random.randint(1, 6)
    mask = [False] + [random.random() < 0.75 for _ in range(n)]

    def stream(draw):
        return [f32(draw()) if m else 0.0 for m in mask]

    lp = stream(lambda: -random.expovariate(1.0))
    e = dict(
        task=task, run=run, turn=turn, mask=mask, logprobs=lp, teacher=[f32(x + random.gauss(0, 1.5)) if m else 0.0 for x, m in zip(lp, mask)],
        penalty=[0.1 * random.gauss(0, 1) if m else 0.0 for m in mask], entropies=stream(lambda: random.uniform(0, 2.5)),
        discriminators=stream(lambda: random.gauss(0, 0.1)), reward=random.choice([0.0, 1.0, 0.5, random.gauss(0, 1)]), valid=random.random() < 0.85, info={},
    )
    e.update(more)
    return e


single = [[experience(f"s{i}", run, info={"reward_baseline": None if i == 3 else round(random.random(), 3)}) for run in range(n)] for i, n in enumerate((4, 2, 8, 1, 3, 6))]
single.append([experience("equal", run, reward=1.0, valid=True, info={"reward_baseline": 0.25}) for run in range(4)])
single.append([experience("failed", run, valid=False, info={"reward_baseline": 0.5}) for run in range(2)])

steps = []
for i, runs in enumerate((4, 3, 1, 5)):
    g = []
    for run in range(runs):
        turns = random.randint(1, 4)
        valid = random.random() < 0.8
        graded = i != 1 and random.random() < 0.8
        for turn in range(turns):
            info = {}
            if random.random() < 0.85:
                info["env_state_hash"] = random.choice(["start", "door", 7]) if turn else "start"
            if graded and (turn == 0 or random.random() < 0.7):
                info["step_reward"] = round(random.gauss(0, 1), 3)
            g.append(experience(f"m{i}", run, turn, valid=valid or turn < turns - 1, info=info))
    random.shuffle(g)  # the list's order is not that of the turns
    steps.append(g)

packs = []
for i, runs in enumerate((4, 3)):
    g = []
    for run in range(runs):
        rewards = [round(random.random(), 3) for _ in range(3)]
        for k in range(3):
            g.append(experience(f"p{i}", run, 2 * k, valid=True, reward=rewards[k], info=dict(exp_type="solve_task", task_idx=k, task_rewards=rewards, taskset_id=i)))
            if k < 2:
                g.append(experience(f"p{i}", run, 2 * k + 1, valid=random.random() < 0.9, reward=round(random.random(), 3), info=dict(
                    exp_type="gen_hint", hint_idx=k, task_rewards=rewards, taskset_id=i, judge_format_error=random.random() < 0.1)))
    packs.append(g)

data = dict(single=single, steps=steps, packs=packs)
cases = []


def case(fn, source, out, returns=None, mask=None, **args):
    """out maps (group, experience) to an advantage per token; what is absent was left out"""
    def rows(values):
        return [[values.get((i, j)) for j in range(len(g))] for i, g in enumerate(data[source])]
    cases.append(dict(fn=fn, data=source, args=args, advantages=rows(out), returns=rows(returns) if returns else None, mask=rows(mask) if mask else None))


def spread(e, a):
    return [a if m else 0.0 for m in e["mask"]]


def groupwise(fn, score, **args):
    out = {}
    for i, g in enumerate(single):
        at = [j for j, e in enumerate(g) if e["valid"]]
        if at:
            for j, a in zip(at, score(tensor([g[j]["reward"] for j in at])).tolist()):
                out[i, j] = spread(g[j], a)
    case(fn, "single", out, **args)
    return out


def std1(x):
    return x.std() if len(x) > 1 else tensor(1.0)


def mean0(x):
    return x.mean() if len(x) > 1 else tensor(0.0)


def grpo_scores(x):
    return (x - mean0(x)) / (std1(x) + 1e-6)


groupwise("reinforce", lambda x: x)
groupwise("rloo", lambda x: x if len(x) == 1 else x - (x.sum() - x) / (len(x) - 1))
groupwise("opmd", lambda x: x - mean0(x))
groupwise("opmd_verl", lambda x: x - mean0(x))
for tau in (1.0, 0.05, 20.0):
    groupwise("opmd", lambda x: x if len(x) == 1 else x - tau * (torch.logsumexp(x / tau, 0) - tensor(float(len(x))).log()), opmd_baseline="logavgexp", tau=tau)
for shift in (-0.1, 0.3):
    groupwise("asymre", lambda x: x if len(x) == 1 else x - x.mean() - shift, baseline_shift=shift)
groupwise("asymre_verl", lambda x: x if len(x) == 1 else x - x.mean() + 0.1)
groupwise("rec", lambda x: x - mean0(x))
groupwise("rec", lambda x: (x - mean0(x)) / ((x.std(correction=0) if len(x) > 1 else 1.0) + 1e-3), std_normalize=True, epsilon=1e-3)
grpo = groupwise("grpo_verl", grpo_scores)

# over the tokens of a batch
valid = [(i, j, e) for i, g in enumerate(single) for j, e in enumerate(g) if e["valid"]]


def returns_of(e, gamma, penalty):
    r = [-p if penalty else 0.0 for p in e["penalty"]]
    at = [t for t, m in enumerate(e["mask"]) if m]
    if at:
        r[at[-1]] += e["reward"]
    g = [0.0] * len(r)
    for t in at:  # Σ over the trained tokens from t on
        g[t] = sum(gamma ** n * r[u] for n, u in enumerate(v for v in at if v >= t))
    return g


for gamma in (1.0, 0.9):
    for penalty in (False, True):
        g = {(i, j): returns_of(e, gamma, penalty) for i, j, e in valid}
        flat = tensor([x for i, j, e in valid for x, m in zip(g[i, j], e["mask"]) if m])
        mean, var = flat.mean(), flat.var()
        out = {(i, j): [((x - mean) * torch.rsqrt(var + 1e-8)).item() if m else 0.0 for x, m in zip(g[i, j], e["mask"])] for i, j, e in valid}
        case("reinforceplusplus", "single", out, returns=g, gamma=gamma, **({"penalty": True} if penalty else {}))
for penalty in (False, True):
    based = [(i, j, e) for i, j, e in valid if e["info"]["reward_baseline"] is not None]
    g = {(i, j): returns_of(e, 1.0, penalty) for i, j, e in based}
    out = {(i, j): [x - e["info"]["reward_baseline"] if m else 0.0 for x, m in zip(g[i, j], e["mask"])] for i, j, e in based}
    case("remax", "single", out, returns=g, **({"penalty": True} if penalty else {}))

# distillation: the weight of ∇ln S of the sampled token, by autograd over a distribution of three tokens with the sampled one's T and S
everything = [(i, j, e) for i, g in enumerate(single) for j, e in enumerate(g)]


def descent(divergence, s, t):
    s, t = min(s, -1e-9), min(t, -1e-9)
    rest_s, rest_t = 1 - tensor(s).exp(), 1 - tensor(t).exp()
    student = torch.stack([tensor(s).exp(), 0.3 * rest_s, 0.7 * rest_s]).requires_grad_()
    teacher = torch.stack([tensor(t).exp(), 0.6 * rest_t, 0.4 * rest_t])
    grad, = torch.autograd.grad(divergence(student, teacher), student)
    return grad  # d/dS_v; up to a constant c over v, which has no effect: Σ_v S_v·∇ln S_v = 0


def kl(p, q):
    return (p * (p.log() - q.log())).sum()


def jsd(lam):
    def of(s, t):
        m = lam * t + (1 - lam) * s
        return lam * kl(t, m) + (1 - lam) * kl(s, m)
    return of


def distilled(weight):
    return {(i, j): [weight(s, t) if m else 0.0 for s, t, m in zip(e["logprobs"], e["teacher"], e["mask"])] for i, j, e in everything}


for e in (e for _, _, e in everything):
    e["teacher"] = [f32(min(t, -0.01)) if m else 0.0 for t, m in zip(e["teacher"], e["mask"])]
    e["logprobs"] = [f32(min(l, -0.01)) if m else 0.0 for l, m in zip(e["logprobs"], e["mask"])]
for coef in (1.0, 0.5):
    # ∂KL(S‖T)/∂S = ln S − ln T + 1
    case("on_policy_distill", "single", distilled(lambda s, t: coef * (1 - descent(kl, s, t)[0].item())), kl_coef=coef)
for lam in (0.5, 0.1, 0.9):
    case("jsd", "single", distilled(lambda s, t: -descent(jsd(lam), s, t)[0].item()), lambda_coef=lam)
case("jsd", "single", distilled(lambda s, t: -1 - descent(lambda p, q: kl(q, p), s, t)[0].item()), lambda_coef=0.0)
case("jsd", "single", distilled(lambda s, t: 2 * (1 - descent(kl, s, t)[0].item())), lambda_coef=1.0, kl_coef=2.0)

# entropy clips; logprobs were bounded above since grpo was recorded, which grpo does not read
for fn, args in (("clipb", dict(mu=2.5)), ("clipb", dict(mu=0.3)), ("clipv", dict(mu=0.2, max_frac=0.1)), ("clipv", dict(mu=0.2, max_frac=1.0)), ("clipv", {})):
    tokens = [(i, j, t) for i, j, e in valid for t, m in enumerate(e["mask"]) if m]

    def column(name):
        return tensor([single[i][j][name][t] for i, j, t in tokens])

    A = tensor([grpo[i, j][t] for i, j, t in tokens])
    S = column("logprobs").exp() * (column("entropies") + column("logprobs"))
    if fn == "clipb":
        out = (A < 0) & (S - S.mean() < -args["mu"] * S.std(correction=0))
    else:
        D = column("discriminators") - S
        out = (A < 0) & (D > args.get("mu", 8.5) * D.std(correction=0))
        most = max(1, int(args.get("max_frac", 1e-4) * len(tokens)))
        if out.sum() > most:
            floor = D[out].sort(descending=True).values[most - 1]
            out &= D >= floor
    clipped = {tokens[n] for n in out.nonzero().flatten().tolist()}
    keep = {(i, j): [m and (i, j, t) not in clipped for t, m in enumerate(e["mask"])] for i, j, e in valid}
    case(fn, "single", {k: [a if m else 0.0 for a, m in zip(grpo[k], keep[k])] for k in keep}, mask=keep, **args)


# several steps
def runs_of(g):
    runs = {}
    for j, e in enumerate(g):
        runs.setdefault(e["run"], []).append(j)
    runs = {r: sorted(js, key=lambda j: g[j]["turn"]) for r, js in runs.items()}
    return {r: js for r, js in runs.items() if g[js[-1]]["valid"]}


ends = tensor([g[js[-1]]["reward"] for g in steps for js in runs_of(g).values()])
for fn in ("step_wise_grpo", "cod"):
    for args in ({}, dict(enable_step_norm=True), dict(std_cal_level="batch", epsilon=1e-2), dict(std_cal_level="none"), dict(std_threshold=0.6)):
        out = {}
        for i, g in enumerate(steps):
            runs = runs_of(g)
            if not runs:
                continue
            x = tensor([g[js[-1]]["reward"] for js in runs.values()])
            if "std_threshold" in args and (len(x) == 1 or x.std() <= args["std_threshold"]):
                continue
            scale = {"group": std1(x), "batch": ends.std()}.get(args.get("std_cal_level", "group"))
            score = x - mean0(x) if scale is None else (x - mean0(x)) / (scale + args.get("epsilon", 1e-6))
            for s, js in zip(score.tolist(), runs.values()):
                for j in js:
                    out[i, j] = spread(g[j], s / len(js) if args.get("enable_step_norm") else s)
        case(fn, "steps", out, **args)

for args in ({}, dict(omega=0.5, gamma=0.9, fnorm="std", epsilon=1e-3)):
    gamma, eps = args.get("gamma", 1.0), args.get("epsilon", 1e-6)

    def norm(x):
        if len(x) == 1:
            return x / (1 + eps)
        return (x - x.mean()) / ((x.std() if args.get("fnorm") == "std" else 1.0) + eps)

    out = {}
    for i, g in enumerate(steps):
        runs, ret, total = runs_of(g), {}, []
        for js in runs.values():
            graded = any("step_reward" in g[j]["info"] for j in js)
            r = [g[j]["info"].get("step_reward", 0.0) if graded else (g[j]["reward"] if j == js[-1] else 0.0) for j in js]
            total.append(sum(r))
            for t, j in enumerate(js):
                ret[j] = sum(gamma ** k * x for k, x in enumerate(r[t:]))
        if not runs:
            continue
        buckets = {}
        for j in ret:
            if "env_state_hash" in g[j]["info"]:
                buckets.setdefault(g[j]["info"]["env_state_hash"], []).append(j)
        step = {j: 0.0 for j in ret}
        for js in buckets.values():
            if len(js) > 1:
                step.update(zip(js, norm(tensor([ret[j] for j in js])).tolist()))
        for a, js in zip(norm(tensor(total)).tolist(), runs.values()):
            for j in js:
                out[i, j] = spread(g[j], a + args.get("omega", 1.0) * step[j])
    case("gigpo", "steps", out, **args)

# Connect-the-Dots, causal
for args in (
    {}, dict(e2e_causal_returns_style="sliding_window_mean", e2e_causal_returns_window=2), dict(e2e_causal_returns_style="discounted", e2e_causal_returns_gamma=0.5),
    dict(red_weight_temp=0.7), dict(red_weight_adv_shift=True, red_weight_adaptive_level="task"),
    dict(red_weight_adaptive_temp=True, red_weight_adaptive_version="bisection", red_weight_adaptive_level="taskset"),
    dict(red_weight_adaptive_temp=True, red_weight_adaptive_version="bisection"),
):
    value, key = {}, {}
    for i, g in enumerate(packs):
        for j, e in enumerate(g):
            info = e["info"]
            if info.get("judge_format_error") or not e["valid"]:
                continue
            k = info.get("task_idx", info.get("hint_idx"))
            r = info["task_rewards"][k:] if info["exp_type"] == "solve_task" else [e["reward"]] + info["task_rewards"][k + 1:]
            style = args.get("e2e_causal_returns_style", "mean")
            if style == "discounted":
                value[i, j] = sum(x * args["e2e_causal_returns_gamma"] ** n for n, x in enumerate(r))
            else:
                r = r[: args["e2e_causal_returns_window"]] if style == "sliding_window_mean" else r
                value[i, j] = sum(r) / len(r)
            key[i, j] = (i, info["exp_type"], k)
    score = {}
    for at in value:
        peers = [value[o] for o in value if key[o] == key[at]]
        score[at] = value[at] - sum(peers) / len(peers)
    length = {at: sum(packs[at[0]][at[1]]["mask"]) for at in value}
    out = {}
    for level in ([0, 1] if "red_weight_adaptive_level" in args else [None]):
        members = [at for at in value if level is None or at[0] == level]
        x, n = tensor([score[at] for at in members]), tensor([float(length[at]) for at in members])
        temp = args.get("red_weight_temp")
        if args.get("red_weight_adaptive_temp") and (x * n).sum() < 0:
            lo, hi = 0.8, 100.0
            for _ in range(20):
                temp = (lo + hi) / 2
                if (x * torch.exp(x / temp) * n).sum() < 0:
                    hi = temp
                else:
                    lo = temp
                if hi - lo < 0.05:
                    break
        y = x * torch.exp(x / temp) if temp else x
        if args.get("red_weight_adv_shift"):
            y = y - torch.clamp((x * n).sum() / n.sum(), max=0.0)
        for at, a in zip(members, y.tolist()):
            out[at] = spread(packs[at[0]][at[1]], a)
    case("cod", "packs", out, returns={at: spread(packs[at[0]][at[1]], value[at]) for at in value}, iterative_hint_e2e_causal=True, **args)

print(json.dumps(dict(data=data, cases=cases)))
