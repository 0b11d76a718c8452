# Writes what transformers makes of the tiny models in ../../../testdata: greedy continuations with and without a repetition penalty, and
# the log-probabilities of their tokens; with a .gguf file as argument, also of that model's ids for a few prompts.
# usage: record.py [MODEL.gguf]      needs torch, transformers, safetensors, and gguf for the latter
import gzip, json, os, sys
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

here = os.path.dirname(os.path.abspath(__file__))
models = os.path.join(here, "..", "..", "..", "testdata")

def continuation(m, prompt, new, penalty):
    out = m.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), max_new_tokens=new, do_sample=False,
                     repetition_penalty=penalty, eos_token_id=None, pad_token_id=0)[0]
    with torch.no_grad():
        lp = torch.log_softmax(m(out[None]).logits[0].float(), -1)
    new_tokens = out[len(prompt):].tolist()
    return dict(prompt=prompt, penalty=penalty, tokens=new_tokens,
                logprobs=[lp[len(prompt) + i - 1, t].item() for i, t in enumerate(new_tokens)])

def write(name, cases):
    with open(os.path.join(here, name + ".json.gz"), "wb") as f:
        f.write(gzip.compress(json.dumps(cases).encode(), mtime=0))

def together(weights):  # in memory, transformers keeps the experts of a layer in one tensor
    experts, rest = {}, {}
    for name, v in weights.items():
        if ".experts." not in name:
            rest[name] = v
            continue
        layer, expert = name.split(".experts.")
        i, part = expert.split(".")[:2]
        experts.setdefault(layer, {}).setdefault(part, {})[int(i)] = v
    for layer, parts in experts.items():
        gate, up, down = (torch.stack([parts[p][i] for i in range(len(parts[p]))]) for p in ("gate_proj", "up_proj", "down_proj"))
        rest[layer + ".experts.gate_up_proj"], rest[layer + ".experts.down_proj"] = torch.cat([gate, up], 1), down
    return rest

if len(sys.argv) > 1:
    folder, file = os.path.split(sys.argv[1])
    tok = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    m = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32).eval()
    texts = ["The capital of France is", "<|im_start|>user\nWhat is 17 + 25?<|im_end|>\n<|im_start|>assistant\n",
             "Once upon a time there was a small robot who", "def fibonacci(n):\n    "]
    write("smollm2", [continuation(m, tok(t, add_special_tokens=False)["input_ids"], 40, 1.0) for t in texts])
else:
    g = torch.Generator().manual_seed(3)
    prompts = [torch.randint(2, 64, (n,), generator=g).tolist() for n in (1, 5, 17, 33)]
    cases = {}
    for name in ("llama", "llama3_bias_tied", "mistral", "qwen2", "qwen3", "qwen3_moe", "qwen3_moe_sums"):
        folder = os.path.join(models, name)  # which may hold an adapter too: not to be loaded
        m = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), attn_implementation="eager").float().eval()
        weights = {n: v.float() for n, v in load_file(os.path.join(folder, "model.safetensors")).items()}
        missing, unexpected = m.load_state_dict(together(weights), strict=False)
        assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
        cases[name] = [continuation(m, p, 20, penalty) for p in prompts for penalty in (1.0, 1.4)]
    write("greedy", cases)
