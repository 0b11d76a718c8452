# Writes LoRA adapters as PEFT saves them, and greedy continuations by PEFT with each of them.
# usage: record_adapters.py      needs torch, transformers, peft; reads ../../../testdata, writes beside itself
import gzip, json, pathlib, shutil
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

here = pathlib.Path(__file__).resolve().parent
bases = here.parents[2] / "testdata"
adapters = {
    "plain": dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"]),
    "stable": dict(r=3, lora_alpha=2, use_rslora=True, target_modules="all-linear"),
    "partial": dict(r=5, lora_alpha=4, target_modules="all-linear", exclude_modules=["k_proj", "up_proj"], lora_dropout=0.1),
    "head": dict(r=6, lora_alpha=9, target_modules=["v_proj", "gate_proj", "lm_head"]),
}

def open_base():
    return AutoModelForCausalLM.from_pretrained(bases / "llama", dtype=torch.float32, attn_implementation="eager")

def greedy(model, prompt, n):
    model.eval()
    tokens, logprobs, ids = [], [], list(prompt)
    with torch.no_grad():
        for _ in range(n):
            lp = torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0, -1].float(), -1)
            best = int(lp.argmax())
            tokens.append(best)
            logprobs.append(float(lp[best]))
            ids.append(best)
    return dict(prompt=list(prompt), penalty=1.0, tokens=tokens, logprobs=logprobs)

g = torch.Generator().manual_seed(21)
prompts = [torch.randint(2, 64, (n,), generator=g).tolist() for n in (3, 11)]
out = {"base": [greedy(open_base(), p, 12) for p in prompts]}
for name, config in adapters.items():
    model = get_peft_model(open_base(), LoraConfig(task_type="CAUSAL_LM", **config))
    with torch.no_grad():
        for key, p in sorted(model.named_parameters()):
            if "lora" in key:
                p.copy_(torch.randn(p.shape, generator=g) / p.shape[1] ** 0.5)
    model.peft_config["default"].base_model_name_or_path = "llama"
    where = here / "adapters" / name
    shutil.rmtree(where, ignore_errors=True)
    model.save_pretrained(where)
    (where / "README.md").unlink(missing_ok=True)
    out[name] = [greedy(PeftModel.from_pretrained(open_base(), where), p, 12) for p in prompts]
with open(here / "adapters.json.gz", "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", mtime=0, filename="") as z:
    z.write(json.dumps(out).encode())
