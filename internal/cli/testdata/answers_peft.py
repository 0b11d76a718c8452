"""Compares answers with those of PEFT.

Reads {"model", "prompts", "answers"} from standard input, as answers_llama.py does; "model" is the directory of an adapter.
"""
import json
import sys

import torch
from peft import AutoPeftModelForCausalLM

spec = json.load(sys.stdin)
model = AutoPeftModelForCausalLM.from_pretrained(spec["model"]).eval()
behind = []
for prompt, answer in zip(spec["prompts"], spec["answers"]):
    with torch.no_grad():
        logits = model(torch.tensor([prompt + answer[:-1]])).logits[0, len(prompt) - 1:].float()
    behind.append((logits.max(dim=1).values - logits.gather(1, torch.tensor(answer)[:, None])[:, 0]).tolist())
print(json.dumps({"behind": behind}))
