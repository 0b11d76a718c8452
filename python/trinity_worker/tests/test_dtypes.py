"""Files whose numbers the worker does not read."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

from trinity_worker import loading


@pytest.mark.parametrize(("dtype", "kind"), [(torch.float64, "F64"), (torch.float8_e4m3fn, "F8_E4M3")])
def test_an_unknown_dtype_is_named(tmp_path: Path, dtype: torch.dtype, kind: str) -> None:
    config = LlamaConfig(vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    name = "model.layers.0.mlp.up_proj.weight"
    weights = {k: v.clone() for k, v in LlamaForCausalLM(config).state_dict().items()}
    weights[name] = weights[name].to(dtype)
    save_file(weights, tmp_path / loading.MODEL_FILE)
    with loading.without_values():
        model = LlamaForCausalLM(config)
    with pytest.raises(ValueError, match=f"tensor {name} is {kind}; save it as one of F32, BF16, F16"):
        loading.fill(model, model, str(tmp_path), "", torch.device("cpu"))
