"""model.py GGUF DIR: writes a GGUF model as an f32 Hugging Face directory, which every peer loads."""
import os
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

source, target = sys.argv[1:3]
folder, name = os.path.split(source)
tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
model.hf_quantizer, model.is_quantized = None, False  # the weights are plain f32 now
if hasattr(model.config, "quantization_config"):
    del model.config.quantization_config
model.save_pretrained(target + ".part")
tokenizer.save_pretrained(target + ".part")
os.rename(target + ".part", target)
