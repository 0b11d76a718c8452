# Writes what transformers says of SmolLM2-135M-Instruct (float32): the log-probability of every token of some texts and chats, and the token
# ids of the training-loss check.
# usage: record_smollm2.py MODEL.gguf GSM8K_TRAIN.jsonl [OUT_DIR]      needs torch, transformers, gguf
import gzip, json, os, sys
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

gguf, gsm8k = sys.argv[1:3]
out = sys.argv[3] if len(sys.argv) > 3 else os.path.dirname(os.path.abspath(__file__))
d, f = os.path.split(os.path.abspath(gguf))
tok = AutoTokenizer.from_pretrained(d, gguf_file=f)
m = AutoModelForCausalLM.from_pretrained(d, gguf_file=f, dtype=torch.float32, attn_implementation="eager").eval()
rows = [json.loads(line) for line, _ in zip(open(gsm8k), range(400))]

texts = [r["question"] + "\n" + r["answer"] for r in rows[:3]] + [
    "The quick brown fox jumps over the lazy dog. In 1969, 3 men flew to the moon; 2 walked on it.",
    "def fibonacci(n):\n    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a\n\nprint([fibonacci(i) for i in range(10)])\n",
    "Größe, naïve café, 東京タワー, привет мир, 🙂🚀 — “quotes” and tabs\t\t…",
]
chats = [
    [{"role": "user", "content": "What is the capital of France?"}, {"role": "assistant", "content": "The capital of France is Paris."}],
    [{"role": "system", "content": "You are terse."}, {"role": "user", "content": "17+25=?"}, {"role": "assistant", "content": "42"},
     {"role": "user", "content": "Are you sure? Explain step by step."}, {"role": "assistant", "content": "7 + 5 = 12, write 2 and carry 1; 1 + 2 + 1 = 4. So 42."}],
]
ids = [tok(t)["input_ids"] for t in texts]
for c in chats:
    e = tok.apply_chat_template(c, tokenize=False)
    ids.append(tok(e, add_special_tokens=False)["input_ids"])
recorded = []
with torch.no_grad():
    for x in ids:
        t = torch.tensor([x])
        lp = torch.log_softmax(m(input_ids=t).logits[0].float(), -1)
        pick = lp[:-1].gather(1, t[0, 1:, None])[:, 0]
        recorded.append(dict(tokens=x, logprobs=[round(v, 6) for v in pick.tolist()]))

train = []
for r in rows:
    train += tok(r["question"] + "\n" + r["answer"] + "\n\n")["input_ids"]
path = os.path.join(out, "smollm2.json.gz")
with open(path, "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", mtime=0, filename="") as z:
    z.write(json.dumps(dict(texts=recorded, train=train[:2049])).encode())
print(len(ids), "texts,", sum(map(len, ids)), "tokens,", os.path.getsize(path), "bytes")
if "--train" in sys.argv:  # the loss of six steps, as the test expects it
    import torch.nn.functional as F
    x, y = torch.tensor(train[:2048]).view(8, 256), torch.tensor(train[1:2049]).view(8, 256)
    opt = torch.optim.AdamW(m.parameters(), lr=1e-5, weight_decay=0.01)
    for _ in range(6):
        loss = F.cross_entropy(m(input_ids=x).logits.view(-1, 49152), y.view(-1))
        loss.backward(); opt.step(); opt.zero_grad()
        print(f"{loss.item():.4f}", flush=True)
