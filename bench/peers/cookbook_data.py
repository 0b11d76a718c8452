"""Make what recipes of tinker-cookbook open offline, in the current folder: data sets of sums, and a tiny random model with the
tokenizer of a folder. cookbook_data.py TOKENIZER MODEL, where MODEL is the name that recipes know.
"""

import json
import random
import shutil
import sys
from pathlib import Path

import datasets
import torch
import transformers

tokenizer, model = Path(sys.argv[1]), Path(sys.argv[2])
draw = random.Random(0)


def write(name: str, rows: list) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def configure(folder: str, name: str, **splits: str) -> None:
    files = "".join(f"  - split: {split}\n    path: {path}\n" for split, path in splits.items())
    Path(folder, "README.md").write_text(f"---\nconfigs:\n- config_name: {name}\n  data_files:\n{files}---\n")


def sums(n: int) -> list:
    pairs = [(draw.randrange(10), draw.randrange(10)) for _ in range(n)]
    return [(f"What is {a} plus {b}?", str(a + b)) for a, b in pairs]


def chats(n: int) -> list:
    return [[{"role": "user", "content": q}, {"role": "assistant", "content": a}] for q, a in sums(n)]


for split, n in ("train", 64), ("test", 16):
    write(f"HuggingFaceH4/no_robots/{split}.jsonl", [{"prompt": "", "prompt_id": str(i), "category": "", "messages": c} for i, c in enumerate(chats(n))])
    write(f"openai/gsm8k/{split}.jsonl", [{"question": q, "answer": f"It is so.\n#### {a}"} for q, a in sums(n)])
configure("openai/gsm8k", "main", train="train.jsonl", test="test.jsonl")
for split, n in ("train", 2100), ("test", 64):
    asked = [(f"\n\nHuman: {q}\n\nAssistant: ", a) for q, a in sums(n)]
    write(f"Anthropic/hh-rlhf/{split}.jsonl", [{"chosen": q + a, "rejected": q + "I do not know."} for q, a in asked])
words = "the a of river stone market people city north water house train letter music winter".split()
write("Salesforce/wikitext/train.jsonl", [{"text": " ".join(draw.choices(words, k=120))} for _ in range(3000)])
configure("Salesforce/wikitext", "wikitext-103-raw-v1", train="train.jsonl")
write("zwhe99/DeepMath-103K/train.jsonl", [{"question": q, "final_answer": a} for q, a in sums(64)])
write("distilled.jsonl", [{"messages": c} for c in chats(64)])
datasets.Dataset.from_list([{"prompt": q, "golden_response": [a]} for q, a in sums(64)]).save_to_disk("toolalpaca")

model.mkdir(parents=True)
for name in "tokenizer.json", "tokenizer_config.json":
    shutil.copy(tokenizer / name, model / name)
torch.manual_seed(0)
config = transformers.LlamaConfig(
    vocab_size=49152, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=4096, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
transformers.LlamaForCausalLM(config).save_pretrained(model)
