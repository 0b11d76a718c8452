"""Records what logit_bias and the penalties make of logits, by transformers and by the formula that OpenAI publishes.

    python3 record_penalties.py > penalties.json

The order is vLLM's: the bias, the repetition penalty over prompt and reply, then over the reply alone
logit -= frequency_penalty * count and logit -= presence_penalty * (count > 0).
Recorded with torch 2.x and transformers 5.x.
"""

import json
import random

import torch
from transformers import RepetitionPenaltyLogitsProcessor, SequenceBiasLogitsProcessor

VOCAB = 40
random.seed(1)
torch.manual_seed(1)
cases = []
for i in range(24):
    logits = torch.randn(1, VOCAB) * 4
    prompt = [random.randrange(VOCAB) for _ in range(6)]
    reply = [random.randrange(8) for _ in range(i % 9)]
    bias = {random.randrange(VOCAB): random.choice([-100.0, -1.5, 0.25, 7.0]) for _ in range(i % 4)}
    case = {
        "logits": logits[0].tolist(),
        "prompt": prompt,
        "reply": reply,
        "bias": bias,
        "repetition": random.choice([1.0, 1.25, 0.75]),
        "presence": random.choice([0.0, 0.5, -1.25, 2.0]),
        "frequency": random.choice([0.0, 0.3, -0.7, 1.1]),
    }
    ids = torch.tensor([prompt + reply])
    scores = logits.clone()
    if bias:
        scores = SequenceBiasLogitsProcessor([[[token], b] for token, b in bias.items()])(ids, scores)
    if case["repetition"] != 1.0:
        scores = RepetitionPenaltyLogitsProcessor(case["repetition"])(ids, scores)
    counts = torch.bincount(torch.tensor(reply, dtype=torch.long), minlength=VOCAB)
    scores = scores - case["frequency"] * counts
    scores = scores - case["presence"] * (counts > 0)
    case["want"] = scores[0].tolist()
    cases.append(case)
print(json.dumps(cases))
