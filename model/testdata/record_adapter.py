"""Records a LoRA adapter of the tiny llama as PEFT saves it, and the weights of the model with it merged: in float32, and rounded to bfloat16.

Usage: python record_adapter.py   (after record_tiny.py; needs torch, transformers, peft; writes adapter/ beside this script)
"""
import pathlib
import shutil

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
OUT = HERE / "adapter"

shutil.rmtree(OUT, ignore_errors=True)
model = AutoModelForCausalLM.from_pretrained(HERE / "tiny" / "llama", dtype=torch.float32)
model = get_peft_model(model, LoraConfig(r=2, lora_alpha=3, use_rslora=True, target_modules="all-linear", task_type="CAUSAL_LM"))
torch.manual_seed(5)
with torch.no_grad():
    for name, parameter in model.named_parameters():
        if "lora" in name:
            parameter.normal_()
model.peft_config["default"].base_model_name_or_path = "tiny/llama"
model.save_pretrained(OUT)
(OUT / "README.md").unlink(missing_ok=True)
merged = {name: v.clone() for name, v in model.merge_and_unload().named_parameters()}  # a tied head once
save_file(merged, OUT / "merged.safetensors")
save_file({name: v.bfloat16() for name, v in merged.items()}, OUT / "merged_bf16.safetensors")
