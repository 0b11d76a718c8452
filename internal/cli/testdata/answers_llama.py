"""Compares answers with those of llama.cpp.

Reads {"model", "prompts", "answers", "texts"} from standard input: tokens of prompts and of their answers, and texts. For each answer it prints by how
much llama.cpp's largest logit exceeds that of each token of the answer, after the tokens before it: 0 is llama.cpp's own choice. Then it prints the tokens
of each text.
"""
import json
import sys

import llama_cpp
import numpy as np

spec = json.load(sys.stdin)
model = llama_cpp.Llama(spec["model"], n_ctx=256, n_threads=2, logits_all=True, verbose=False,
                        type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32)
behind = []
for prompt, answer in zip(spec["prompts"], spec["answers"]):
    model.reset()
    model.eval(prompt + answer[:-1])
    logits = model.scores[len(prompt) - 1:len(prompt) + len(answer) - 1]
    behind.append((logits.max(axis=1) - logits[np.arange(len(answer)), answer]).tolist())
print(json.dumps({"behind": behind, "texts": [model.tokenize(text.encode(), special=True) for text in spec["texts"] or []]}))
