# Writes how far optimizers move the weights of testdata/llama in three steps with clipping, computed in float64: torch.optim.AdamW and
# torch.optim.SGD, and Muon as Jordan et al. 2024 describe it with the scale of Liu et al. 2025, which must also be near torch.optim.Muon, whose
# iteration is in bfloat16.
# usage: record_optimizers.py [OUT_DIR]      needs torch, safetensors; run record.py first
import os, sys
import numpy as np, torch
from safetensors.torch import load_file, save_file

here = os.path.dirname(os.path.abspath(__file__))
out = sys.argv[1] if len(sys.argv) > 1 else here
lr, betas, eps, decay, clip, sizes = 1e-2, (0.9, 0.95), 1e-8, 0.1, 2.0, (0.01, 1.0, 0.25)
recorded = ["model.embed_tokens.weight", "model.layers.0.input_layernorm.weight", "model.layers.0.self_attn.k_proj.weight",
            "model.layers.1.mlp.gate_proj.weight", "model.layers.1.mlp.down_proj.weight"]

def mix(x):  # one round of SplitMix64
    x = x + np.uint64(0x9e3779b97f4a7c15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
    return x ^ (x >> np.uint64(31))

def fnv(name):  # FNV-1a
    h = 0xcbf29ce484222325
    for b in name.encode():
        h = (h ^ b) * 0x100000001b3 % 2**64
    return h

def gradient(name, shape, step):
    key = mix(np.array([fnv(name) ^ step], dtype=np.uint64))
    n = int(np.prod(shape))
    u = mix(key + np.arange(n, dtype=np.uint64)) >> np.uint64(40)
    return torch.tensor((u.astype(np.float64) * 2.0**-23 - 1) * sizes[step]).reshape(shape)

def is_matrix(name, p):
    return p.dim() == 2 and name.startswith("model.layers.")

class Muon:
    def __init__(self, params, momentum, nesterov):
        self.params, self.momentum, self.nesterov = params, momentum, nesterov
        self.buffers = [torch.zeros_like(p) for p in params]
    def orthogonal(self, d):
        x = d / d.norm()
        if d.shape[0] > d.shape[1]:
            x = x.T
        for _ in range(5):
            g = x @ x.T
            x = 3.4445 * x + (-4.7750 * g + 2.0315 * g @ g) @ x
        return x.T if d.shape[0] > d.shape[1] else x
    @torch.no_grad()
    def step(self):
        for p, b in zip(self.params, self.buffers):
            b.mul_(self.momentum).add_(p.grad)
            d = p.grad + self.momentum * b if self.nesterov else b
            p.mul_(1 - lr * decay).sub_(lr * 0.2 * max(p.shape) ** 0.5 * self.orthogonal(d))

def adamw(params):
    return [torch.optim.AdamW(params, lr=lr, betas=betas, eps=eps, weight_decay=decay)]

def sgd(momentum, nesterov):
    return lambda named: [torch.optim.SGD(list(named.values()), lr=lr, momentum=momentum, nesterov=nesterov, weight_decay=decay)]

def split(named):
    return [p for n, p in named.items() if is_matrix(n, p)], [p for n, p in named.items() if not is_matrix(n, p)]

def muon(momentum, nesterov):
    def make(named):
        matrices, rest = split(named)
        return [Muon(matrices, momentum, nesterov)] + adamw(rest)
    return make

def torch_muon(momentum, nesterov):
    def make(named):
        matrices, rest = split(named)
        return [torch.optim.Muon(matrices, lr=lr, weight_decay=decay, momentum=momentum, nesterov=nesterov, adjust_lr_fn="match_rms_adamw")] + adamw(rest)
    return make

def moved(make):
    start = {n: v.double() for n, v in load_file(os.path.join(here, "llama", "model.safetensors")).items()}
    named = {n: torch.nn.Parameter(v.clone()) for n, v in start.items()}
    optimizers = make(named)
    for step in range(len(sizes)):
        for n, p in named.items():
            p.grad = gradient(n, tuple(p.shape), step)
        torch.nn.utils.clip_grad_norm_(list(named.values()), clip)
        for o in optimizers:
            o.step()
    return {n: (named[n] - start[n]).detach() for n in recorded}

cases = {"adamw": lambda named: adamw(list(named.values())), "sgd": sgd(0, False), "momentum": sgd(0.9, False), "nesterov": sgd(0.9, True),
         "muon": muon(0.95, True), "heavy": muon(0.9, False)}
tensors = {}
for case, make in cases.items():
    for n, v in moved(make).items():
        tensors[case + "." + n] = v[:2].float().contiguous() if "embed" in n else v.float().contiguous()
for case, make in {"muon": torch_muon(0.95, True), "heavy": torch_muon(0.9, False)}.items():
    ours, theirs = moved(cases[case]), moved(make)
    for n in recorded:
        off = ((ours[n] - theirs[n]).norm() / ours[n].norm()).item()
        print(f"{case} {n}: torch.optim.Muon is {off:.2g} off")
        assert off < 0.05, n
save_file(tensors, os.path.join(out, "optimizers.safetensors"))
