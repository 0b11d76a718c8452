# Writes what transformers says of a tiny model: log-probabilities and most likely tokens of random sequences, and sampled replies.
# usage: record.py [OUT_FILE]      needs torch, transformers
import json, os, sys
import torch
from transformers import AutoModelForCausalLM

torch.set_num_threads(1)
here = os.path.dirname(os.path.abspath(__file__))
out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "transformers.jsonl")
m = AutoModelForCausalLM.from_pretrained(os.path.join(here, "..", "..", "engine", "cpu", "testdata", "llama"), dtype=torch.float32, attn_implementation="eager").eval()
g = torch.Generator().manual_seed(11)
digits = lambda x: round(x, 7)

with torch.no_grad(), open(out, "w") as f:
    def say(**line):
        print(json.dumps(line, separators=(",", ":")), file=f)
    for n in (5, 17, 40):  # given tokens
        ids = torch.randint(2, 64, (1, n), generator=g)
        z = torch.log_softmax(m(input_ids=ids[:, :-1]).logits[0].float(), -1)
        lp = z.gather(1, ids[0, 1:, None])[:, 0].tolist()
        say(tokens=ids[0].tolist(), logprobs=[None] + [digits(x) for x in lp], best=[None] + z.argmax(-1).tolist())
    for temperature, n in ((1.0, 3), (0.6, 3)):  # replies to one prompt
        ids, lps = torch.randint(2, 64, (1, 6), generator=g).repeat(300, 1), []
        for _ in range(n):
            z = torch.log_softmax(m(input_ids=ids).logits[:, -1].float() / temperature, -1)
            t = torch.multinomial(z.exp(), 1, generator=g)
            lps.append(z.gather(1, t))
            ids = torch.cat([ids, t], 1)
        for tokens, values in zip(ids.tolist(), torch.cat(lps, 1).tolist()):
            say(tokens=tokens, logprobs=[None] * 6 + [digits(x) for x in values], prompt_len=6, temperature=temperature)
