"""Records a LoRA adapter of the tiny llama's head, which is tied to its embedding: as PEFT saves it, and the weights of the model with it merged.

PEFT merges into the memory that head and embedding share, and the merged model computes something else than the adapter. What it
advises is done here: the head gets a copy of the embedding first. The script fails if PEFT has changed in this.

Usage: python record_adapter_head.py   (after record_tiny.py; needs torch, transformers, peft; writes adapter_head/ beside this script)
"""
import pathlib
import shutil

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
OUT = HERE / "adapter_head"
IDS = torch.tensor([[1, 2, 3, 4]])


def base(**kwargs):
    return AutoModelForCausalLM.from_pretrained(HERE / "tiny" / "llama", dtype=torch.float32, **kwargs)


shutil.rmtree(OUT, ignore_errors=True)
model = get_peft_model(base(), LoraConfig(r=3, lora_alpha=2, target_modules=["q_proj", "lm_head"], task_type="CAUSAL_LM"))
torch.manual_seed(7)
with torch.no_grad():
    for name, parameter in model.named_parameters():
        if "lora" in name:
            parameter.normal_()
    adapted = model(input_ids=IDS).logits
model.peft_config["default"].base_model_name_or_path = "tiny/llama"
model.save_pretrained(OUT)
(OUT / "README.md").unlink(missing_ok=True)

untied = base(tie_word_embeddings=False)
untied.lm_head.weight.data = untied.model.embed_tokens.weight.data.clone()
merged = PeftModel.from_pretrained(untied, OUT).merge_and_unload()
tied = PeftModel.from_pretrained(base(), OUT).merge_and_unload()
with torch.no_grad():
    assert torch.allclose(merged(input_ids=IDS).logits, adapted, atol=1e-5), "the untied model differs from the adapter"
    assert not torch.allclose(tied(input_ids=IDS).logits, adapted, atol=1e-2), "PEFT merges tied heads by now"
save_file({name: v.clone() for name, v in merged.named_parameters()}, OUT / "merged.safetensors")
