"""One optimizer step of PyTorch: forward, cross-entropy on all tokens, backward, AdamW."""
import time

from torch_here import load, spec, torch
from turns import serve

rows, length = spec["batch"], spec["prompt"]
count = rows * length
x = torch.tensor(spec["train"][:count]).view(rows, length)
y = torch.tensor(spec["train"][1 : count + 1]).view(rows, length)
model = load(attn_implementation="sdpa").train()
model.config.use_cache = False
adamw = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.01, fused=True)
forward = torch.compile(model) if spec["compile"] else model


def run(number):
    start = time.perf_counter()
    logits = forward(input_ids=x).logits
    loss = torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), y.view(-1))
    loss.backward()
    adamw.step()
    adamw.zero_grad(set_to_none=True)
    return {"value": count / (time.perf_counter() - start), "loss": loss.item()}


serve(run)
