"""Records what transformers computes: RoPE frequencies and SmolLM2's weights from its GGUF file.

Usage: python record.py [SmolLM2-135M-Instruct.Q4_1.gguf]
Needs torch, transformers, gguf. Writes rope.json and, given the file, smollm2.json beside this script.
"""
import hashlib
import json
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

HERE = pathlib.Path(__file__).parent
BASE = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
    "vocab_size": 32, "max_position_embeddings": 2048,
}
CASES = [
    {},
    {"rope_theta": 500000.0},
    {"rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}},
    {"rope_scaling": {"type": "linear", "factor": 4.0}},
    {"rope_parameters": {"rope_type": "linear", "factor": 2.5, "rope_theta": 20000.0}},
    {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
    {"rope_scaling": {"type": "dynamic", "factor": 2.0}, "seq_len": 5000},
    {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                      "original_max_position_embeddings": 8192}, "rope_theta": 500000.0, "head_dim": 128},
    {"rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                      "original_max_position_embeddings": 8192}, "rope_theta": 500000.0},
    {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}},
    {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1000000.0, "original_max_position_embeddings": 32768},
     "max_position_embeddings": 131072, "head_dim": 128},
    {"rope_scaling": {"rope_type": "yarn", "factor": 16.0, "beta_fast": 16, "beta_slow": 2, "attention_factor": 0.9}},
    {"rope_scaling": {"rope_type": "yarn", "factor": 40.0, "mscale": 0.707, "mscale_all_dim": 1.0, "truncate": False,
                      "original_max_position_embeddings": 4096}},
]


def frequencies(case):
    case = dict(case)
    seq_len = case.pop("seq_len", None)
    settings = {**BASE, **case}
    config = LlamaConfig.from_dict(json.loads(json.dumps(settings)))
    kind = config.rope_parameters["rope_type"]
    compute = ROPE_INIT_FUNCTIONS.get(kind, LlamaRotaryEmbedding.compute_default_rope_parameters)
    inv_freq, attention = compute(config, seq_len=seq_len) if seq_len else compute(config)
    return {"config": settings, "seq_len": seq_len or 0, "inv_freq": inv_freq.double().tolist(), "attention": attention}


def weights(path):
    path = pathlib.Path(path)
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    state = model.state_dict()
    names = ["model.embed_tokens.weight", "model.norm.weight", "model.layers.0.input_layernorm.weight", "model.layers.29.mlp.down_proj.weight"]
    names += [f"model.layers.{n}.self_attn.{p}_proj.weight" for n in (0, 17) for p in "qkvo"]
    return {
        "parameters": model.num_parameters(),
        "sha256": {n: hashlib.sha256(state[n].contiguous().numpy().astype("<f4").tobytes()).hexdigest() for n in names},
        "shapes": {n: list(t.shape) for n, t in state.items() if n != "lm_head.weight"},
    }


(HERE / "rope.json").write_text(json.dumps([frequencies(c) for c in CASES], indent=0) + "\n")
if len(sys.argv) > 1:
    (HERE / "smollm2.json").write_text(json.dumps(weights(sys.argv[1]), indent=0) + "\n")
