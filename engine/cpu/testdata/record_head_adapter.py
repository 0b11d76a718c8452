# Writes LoRA adapters of the head as PEFT saves them, of a tiny model whose head is its own and of one whose head is tied, with what PEFT says
# of them: log-probabilities, entropies, and the gradients of two losses.
# usage: record_head_adapter.py      needs torch, transformers, peft; run record.py first; writes head_adapter/ beside itself
import os, pathlib, shutil, tempfile
import torch
from peft import LoraConfig, get_peft_model
from record import out, reference, sequences, write_json
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

for name in ("llama", "llama3_bias_tied"):
    with tempfile.TemporaryDirectory() as own:  # the folder may hold an adapter, too
        for file in ("config.json", "model.safetensors"):
            shutil.copy(os.path.join(out, name, file), own)
        m = AutoModelForCausalLM.from_pretrained(own, dtype=torch.float32, attn_implementation="eager")
    m = get_peft_model(m, LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=6, target_modules=["q_proj", "down_proj", "lm_head"]))
    g = torch.Generator().manual_seed(17)
    with torch.no_grad():
        for key, p in sorted(m.named_parameters()):
            if "lora" in key:
                p.copy_(torch.randn(p.shape, generator=g) / p.shape[1] ** 0.5)
    d = pathlib.Path(out) / "head_adapter" / name
    shutil.rmtree(d, ignore_errors=True)
    m.peft_config["default"].base_model_name_or_path = name
    m.save_pretrained(d)
    (d / "README.md").unlink(missing_ok=True)
    ref, tensors = reference(m, sequences())
    write_json(d / "reference.json.gz", ref)
    save_file({k.replace("base_model.model.", "").replace(".default", ""): v for k, v in tensors.items()}, d / "gradients.safetensors")
    for file in d.iterdir():
        file.chmod(0o644)
