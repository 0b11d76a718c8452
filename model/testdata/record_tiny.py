"""Records tiny models of every architecture as transformers' save_pretrained writes them, and some as GGUF files.

Usage: python record_tiny.py [NAME…]   (needs torch, transformers, gguf; writes the directory tiny/ beside this script, or the named models alone)
"""
import pathlib
import shutil
import sys

import numpy as np
import torch
from gguf import MODEL_ARCH, GGUFWriter, get_tensor_name_map
from transformers import (Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM,
                          Olmo3Config, Olmo3ForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM, SmolLM3Config,
                          SmolLM3ForCausalLM)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

OUT = pathlib.Path(__file__).parent / "tiny"
SIZES = {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
         "vocab_size": 10, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2}
MODELS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=True)),
    "llama_biases": lambda: LlamaForCausalLM(LlamaConfig(
        **SIZES, attention_bias=True, mlp_bias=True,
        rope_parameters={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 32, "rope_theta": 500000.0})),
    "llama3": lambda: LlamaForCausalLM(LlamaConfig(
        **{**SIZES, "num_hidden_layers": 1, "max_position_embeddings": 131072}, head_dim=16, tie_word_embeddings=True,
        rope_parameters={"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 8192, "rope_theta": 500000.0})),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**SIZES, sliding_window=5)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=4, max_window_layers=1)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=6, tie_word_embeddings=True)),
    "smollm3": lambda: SmolLM3ForCausalLM(SmolLM3Config(**{**SIZES, "num_hidden_layers": 4}, pad_token_id=0, tie_word_embeddings=True)),
    "gemma3_text": lambda: Gemma3ForCausalLM(Gemma3TextConfig(**{**SIZES, "num_hidden_layers": 6}, head_dim=6, query_pre_attn_scalar=6,
                                                              sliding_window=4)),
    "olmo3": lambda: Olmo3ForCausalLM(Olmo3Config(**{**SIZES, "num_hidden_layers": 4}, sliding_window=4)),
    "qwen3_moe": lambda: Qwen3MoeForCausalLM(Qwen3MoeConfig(**SIZES, head_dim=6, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=5,
                                                            mlp_only_layers=[0], norm_topk_prob=True)),
}

ARCHES = {"llama_biases": MODEL_ARCH.LLAMA, "llama3": MODEL_ARCH.LLAMA, "qwen2": MODEL_ARCH.QWEN2, "qwen3": MODEL_ARCH.QWEN3}


def interleave(weights, heads):
    """llama files pair neighbouring rows of a head for RoPE."""
    halves = weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
    return halves.swapaxes(1, 2).reshape(weights.shape)


def write_gguf(model, name):
    config, arch = model.config, ARCHES[name]
    w = GGUFWriter(OUT / f"{name}.gguf", config.model_type)
    w.add_block_count(config.num_hidden_layers)
    w.add_context_length(config.max_position_embeddings)
    w.add_embedding_length(config.hidden_size)
    w.add_feed_forward_length(config.intermediate_size)
    w.add_head_count(config.num_attention_heads)
    w.add_head_count_kv(config.num_key_value_heads)
    w.add_layer_norm_rms_eps(config.rms_norm_eps)
    w.add_rope_freq_base(config.rope_parameters["rope_theta"])
    head_dim = getattr(config, "head_dim", config.hidden_size // config.num_attention_heads)
    w.add_key_length(head_dim)
    w.add_value_length(head_dim)
    names = get_tensor_name_map(arch, config.num_hidden_layers)
    tied = config.tie_word_embeddings
    for key, tensor in model.state_dict().items():
        if key == "lm_head.weight" and tied:
            continue
        values = tensor.float().numpy()
        if config.model_type == "llama" and "q_proj" in key:
            values = interleave(values, config.num_attention_heads)
        if config.model_type == "llama" and "k_proj" in key:
            values = interleave(values, config.num_key_value_heads)
        w.add_tensor(names.get_name(key, try_suffixes=(".weight", ".bias")), np.ascontiguousarray(values))
    if name == "llama3":  # the scaling is kept as divisors of the plain frequencies
        scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config)
        plain, _ = LlamaRotaryEmbedding.compute_default_rope_parameters(config)
        w.add_tensor("rope_freqs.weight", (plain / scaled).numpy())
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


names = sys.argv[1:] or list(MODELS)
if not sys.argv[1:]:
    shutil.rmtree(OUT, ignore_errors=True)
for name in names:
    make = MODELS[name]
    torch.manual_seed(1)
    model = make()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    if name == "mistral":
        model = model.bfloat16()
    model.save_pretrained(OUT / name, max_shard_size="2KB" if name == "qwen2" else "1GB")
    if name == "qwen3_moe":  # also in the layout of transformers' own memory
        model.save_pretrained(OUT / "qwen3_moe_fused", save_original_format=False)
    if name in ARCHES:
        write_gguf(model, name)
