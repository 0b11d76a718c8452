# Writes LoRA adapters of experts as PEFT saves them (target_parameters), with what PEFT says of them: log-probabilities, entropies, the gradients
# of two losses, what three steps of AdamW move, and the merged weights.
# usage: record_expert_adapter.py      needs torch, transformers, peft; run record.py first; writes expert_adapter/ beside itself
import os, pathlib, shutil
import torch
from peft import LoraConfig, get_peft_model
from record import apart, out, reference, sequences, steps, write_json
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

# Both tensors of experts beside attention, as is usual; one alone, which PEFT's files then name otherwise; and the other alone.
adapters = {
    "both": ("qwen3_moe", dict(r=4, lora_alpha=6, target_modules=["q_proj", "o_proj"], target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])),
    "gate_up": ("qwen3_moe_sums", dict(r=3, lora_alpha=4, use_rslora=True, target_modules=[], target_parameters=["experts.gate_up_proj"])),
    "down": ("qwen3_moe_sums", dict(r=2, lora_alpha=3, target_modules=["v_proj"], target_parameters=["layers.1.mlp.experts.down_proj"])),
}

def split(tensors, targets, experts):  # by expert, as W[e] + scale·B[e]·A[e] defines them
    for key, t in tensors.items():
        key = key.replace("base_model.model.", "").replace(".default", "")
        if ".experts." not in key:
            yield key, t.contiguous()
            continue
        both = len(targets) > 1
        stacked = "gate_up_proj" if (".base_layer." in key if both else "gate_up" in targets[0]) else "down_proj"
        module = key[: key.index(".experts.") + len(".experts")]
        t = t.unflatten(0, (experts, -1)) if "lora_A" in key else t.unflatten(1, (-1, experts)).permute(2, 0, 1)
        for e in range(experts):
            yield f"{module}.{e}.{stacked}.{'lora_A' if 'lora_A' in key else 'lora_B'}.weight", t[e].contiguous()

for name, (base, config) in adapters.items():
    m = AutoModelForCausalLM.from_pretrained(os.path.join(out, base), dtype=torch.float32, attn_implementation="eager", experts_implementation="eager")
    m = get_peft_model(m, LoraConfig(task_type="CAUSAL_LM", **config))
    g = torch.Generator().manual_seed(19)
    with torch.no_grad():
        for key, p in sorted(m.named_parameters()):
            if "lora" in key:
                p.copy_(torch.randn(p.shape, generator=g) / (p.shape[1] if "lora_A" in key else 4 * config["r"]) ** 0.5)
    d = pathlib.Path(out) / "expert_adapter" / name
    shutil.rmtree(d, ignore_errors=True)
    m.peft_config["default"].base_model_name_or_path = base
    m.save_pretrained(d)
    (d / "README.md").unlink(missing_ok=True)
    by_expert = lambda tensors, prefix="": {prefix + k: v for k, v in split({k: v for k, v in tensors.items() if "lora_" in k}, config["target_parameters"], m.config.num_experts)}
    ref, tensors = reference(m, sequences())
    write_json(d / "reference.json.gz", ref)
    save_file({k: v for loss in ("nll.", "mix.") for k, v in by_expert({k.removeprefix(loss): v for k, v in tensors.items() if k.startswith(loss)}, loss).items()},
              d / "gradients.safetensors")
    save_file(by_expert(steps(m, sequences())), d / "steps.safetensors")
    merged = m.merge_and_unload()
    save_file({k: v.detach().contiguous() for key, p in merged.named_parameters() for k, v in apart(key, p) if key != "lm_head.weight"}, d / "merged.safetensors")
    for file in d.iterdir():
        file.chmod(0o644)
