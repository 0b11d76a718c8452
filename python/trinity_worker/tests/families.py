"""A tiny random model of each family that the worker proves."""

from pathlib import Path

import torch
import transformers
from transformers import AutoModelForCausalLM

VOCABULARY = 96
COMMON = {
    "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "initializer_range": 0.1,
    "pad_token_id": None, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
WINDOWED = {"head_dim": 16, "sliding_window": 8}
ALTERNATING = {"layer_types": ["sliding_attention", "full_attention"] * 2}
DELTA = {
    "head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
}  # fmt: skip
HYBRID = {
    "num_hidden_layers": 2, "layer_types": ["mamba", "attention"], "mamba_n_heads": 8, "mamba_d_head": 16,
    "mamba_d_state": 16, "num_local_experts": 0, "shared_intermediate_size": 96, "position_embedding_type": "rope",
    "logits_scaling": 3.0,
}  # fmt: skip
FALCON = {
    "num_hidden_layers": 2, "mamba_d_ssm": 128, "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 16,
    "mamba_n_groups": 1, "lm_head_multiplier": 0.3,
}  # fmt: skip
GEMMA4 = WINDOWED | ALTERNATING | {
    "global_head_dim": 16, "vocab_size_per_layer_input": VOCABULARY, "hidden_size_per_layer_input": 16,
    "num_kv_shared_layers": 2, "final_logit_softcapping": 0.5,
}  # fmt: skip
EXPERTS = {"intermediate_size": 32, "num_local_experts": 4, "num_experts_per_tok": 2, "output_router_logits": True}

# The class of the configuration and what it adds. What carries state comes first.
STATEFUL = {
    "lfm2": ("Lfm2Config", {"layer_types": ["conv", "conv", "full_attention", "conv"]}),
    "lfm3": ("Lfm3Config", WINDOWED),
    "qwen3_5": ("Qwen3_5TextConfig", DELTA),
    "granite hybrid": ("GraniteMoeHybridConfig", HYBRID),
    "falcon_h1": ("FalconH1Config", FALCON),
}
STATELESS = {
    "gpt-oss": ("GptOssConfig", WINDOWED | ALTERNATING | EXPERTS),
    "smollm3": ("SmolLM3Config", {}),
    "olmo3": ("Olmo3Config", {"sliding_window": 8}),
    "gemma3": ("Gemma3TextConfig", WINDOWED | ALTERNATING | {"query_pre_attn_scalar": 16}),
    "gemma4": ("Gemma4TextConfig", GEMMA4),
    "granite": ("GraniteConfig", {"logits_scaling": 3.0, "attention_multiplier": 0.2, "residual_multiplier": 0.5}),
    "cohere": ("CohereConfig", {"logit_scale": 0.25}),
    "phi3": ("Phi3Config", {"partial_rotary_factor": 0.75}),
    "ministral3": ("Ministral3Config", {"head_dim": 16}),
    "qwen3_moe": (
        "Qwen3MoeConfig", {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "head_dim": 16},
    ),
}  # fmt: skip
FAMILIES = STATEFUL | STATELESS
REFUSED = {"gemma2": ("Gemma2Config", {"head_dim": 16}), "hyperclovax": ("HyperCLOVAXConfig", {"logits_scaling": 3.0})}


def tiny(family: str, path: Path, **more) -> Path:
    """Saves a model of a family and returns its directory."""
    kind, own = (FAMILIES | REFUSED)[family]
    torch.manual_seed(0)
    config = getattr(transformers, kind)(**COMMON | own | more)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim == 1 or "conv" in name:  # which begin at 0 or 1, or so small that nothing shows
                p.add_(torch.randn_like(p) * 0.2)
        for name, b in model.named_buffers():
            if name.endswith("layer_scalar"):
                b.add_(torch.randn_like(b) * 0.2)
    assert sum(p.numel() for p in model.parameters()) <= 270_000
    model.save_pretrained(path)
    return path


def witness(path: Path) -> dict[str, str]:
    (path / "witness").write_text("nonce")
    return {"file": str(path / "witness"), "nonce": "nonce"}
