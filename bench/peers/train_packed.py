"""One optimizer step of PyTorch on sequences of unequal lengths, packed into rows without padding: a plain loop."""
import time

from torch_here import load, spec, torch
from turns import serve

MICRO = 2048  # tokens of a row at most
lengths, count, prompt = spec["lengths"], sum(spec["lengths"]), max(1, spec["prompt"])
device = "cuda" if torch.cuda.is_available() else "cpu"
packs, row, at = [], [], 0
for n in lengths:
    if row and sum(len(s) for s in row) + n > MICRO:
        packs.append(row)
        row = []
    row.append(spec["train"][at : at + n])
    at += n
packs.append(row)
model = load(attn_implementation="sdpa").to(device).train()
model.config.use_cache = False
adamw = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.01)
targets = sum(n - prompt for n in lengths)


def run(number):
    start, total = time.perf_counter(), 0.0
    for pack in packs:
        ids = torch.tensor([t for s in pack for t in s], device=device)
        places = torch.tensor([i for s in pack for i in range(len(s))], device=device)
        # transformers keeps the sequences of a row apart where the positions begin again
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            logits = model(input_ids=ids[None], position_ids=places[None]).logits[0]
        predicted = (places >= prompt).nonzero()[:, 0]
        loss = torch.nn.functional.cross_entropy(logits[predicted - 1].float(), ids[predicted], reduction="sum") / targets
        loss.backward()
        total += loss.item()
    adamw.step()
    adamw.zero_grad(set_to_none=True)
    return {"value": count / (time.perf_counter() - start), "loss": total}


serve(run)
