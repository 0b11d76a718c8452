# Writes what AdamW with 8-bit moments does in six steps, computed in float64 as Dettmers et al. 2022 (arXiv 2110.02861, sections 1.3, 2.1, 2.2)
# describe it: blocks of 256, the dynamic tree map (signed for the first moment, its sign bit one more of the fraction for the second), moments
# of tensors below 4096 weights unquantised. A second moment of 0 alone becomes 0.
# usage: record_adamw_8bit.py [OUT_DIR]      needs torch, safetensors
import os, sys
import numpy as np, torch
from safetensors.torch import save_file

out = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
lr, beta1, beta2, eps, decay, clip, block, least = 1e-2, 0.9, 0.95, 1e-8, 0.1, 2.0, 256, 4096
sizes = (0.01, 1.0, 0.25, 2.0, 0.003, 0.5)
hidden, inner, vocabulary, keys = 64, 67, 64, 32
shapes = {"model.embed_tokens.weight": (vocabulary, hidden), "model.norm.weight": (hidden,), "lm_head.weight": (vocabulary, hidden)}
for name, shape in {"input_layernorm": (hidden,), "post_attention_layernorm": (hidden,), "self_attn.q_proj": (hidden, hidden), "self_attn.k_proj": (keys, hidden),
                    "self_attn.v_proj": (keys, hidden), "self_attn.o_proj": (hidden, hidden), "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden),
                    "mlp.down_proj": (hidden, inner)}.items():
    shapes["model.layers.0." + name + ".weight"] = shape

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

def uniform(name, step):  # in [-1, 1)
    key = mix(np.array([fnv(name) ^ step], dtype=np.uint64))
    n = int(np.prod(shapes[name]))
    u = mix(key + np.arange(n, dtype=np.uint64)) >> np.uint64(40)
    return torch.tensor(u.astype(np.float64) * 2.0**-23 - 1)

def tree(signed):  # every pattern of 7 bits, once with either value of the eighth
    numbers = []
    for eighth in (0, 1):
        for pattern in range(128):
            text = format(pattern, "07b")
            zeros = len(text) - len(text.lstrip("0"))
            if zeros == 7:
                numbers.append(float(eighth))
                continue
            fraction = text[zeros + 1:] + ("" if signed else str(eighth))
            cells, cell = 2 ** len(fraction), int(fraction or "0", 2)
            middle = 10.0 ** -zeros * (0.1 + 0.9 * (cell + 0.5) / cells)
            numbers.append(-middle if signed and eighth else middle)
    assert len(set(numbers)) == 256
    return torch.tensor(sorted(numbers), dtype=torch.float64)

class Blocks:
    def __init__(self, n, signed):
        self.map, self.signed, self.n = tree(signed), signed, n
        self.codes, self.scales = torch.zeros(n, dtype=torch.long), torch.zeros((n + block - 1) // block, dtype=torch.float64)
    def spread(self):
        return self.scales.repeat_interleave(block)[:self.n]
    def decode(self):
        return self.map[self.codes] * self.spread()
    def encode(self, x):
        padded = torch.zeros(len(self.scales) * block, dtype=torch.float64)
        padded[:self.n] = x.abs()
        self.scales = padded.reshape(-1, block).amax(1)
        at = x / self.spread()
        self.codes = (at[:, None] - self.map[None, :]).abs().argmin(1)
        if not self.signed:
            self.codes[(self.codes == 0) & (x > 0)] = 1

class Plain:
    def __init__(self, n, signed): self.x = torch.zeros(n, dtype=torch.float64)
    def decode(self): return self.x
    def encode(self, x): self.x = x

weights = {n: 0.1 * uniform(n, 1000) for n in shapes}
start = {n: w.clone() for n, w in weights.items()}
kind = lambda w: Blocks if len(w) >= least else Plain
moments = {n: (kind(w)(len(w), True), kind(w)(len(w), False)) for n, w in weights.items()}
for i, size in enumerate(sizes):
    grads = {n: uniform(n, i) ** 3 * size for n in shapes}
    norm = sum((g ** 2).sum() for g in grads.values()) ** 0.5
    scale = min(1.0, clip / (norm + 1e-6))
    for n, w in weights.items():
        g, (mean, square) = grads[n] * scale, moments[n]
        m = beta1 * mean.decode() + (1 - beta1) * g
        v = beta2 * square.decode() + (1 - beta2) * g ** 2
        w.mul_(1 - lr * decay).sub_(lr * (m / (1 - beta1 ** (i + 1))) / ((v / (1 - beta2 ** (i + 1))).sqrt() + eps))
        mean.encode(m), square.encode(v)

tensors = {"signed": tree(True), "unsigned": tree(False)}
for n in ("model.embed_tokens.weight", "model.norm.weight", "model.layers.0.self_attn.k_proj.weight", "model.layers.0.mlp.down_proj.weight"):
    tensors["moved." + n] = weights[n] - start[n]
for key, b in zip(("exp_avg.", "exp_avg_sq."), moments["model.layers.0.mlp.down_proj.weight"]):
    tensors[key + "codes"], tensors[key + "scales"] = b.codes, b.scales
save_file({n: t.float().contiguous() for n, t in tensors.items()}, os.path.join(out, "adamw_8bit.safetensors"))
