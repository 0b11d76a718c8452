"""The text part of a model of text and images: the worker opens it alone, and saves it as a text model."""

import pytest
import torch
import transformers
from families import DELTA, VOCABULARY, WINDOWED
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

from trinity_worker.check import check_config
from trinity_worker.network import Network, Spec

TEXT = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "max_position_embeddings": 128, "initializer_range": 0.1,
}  # fmt: skip
SIGHT = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
SQUARE = SIGHT | {"image_size": 28, "patch_size": 14}
# The configuration, its text part, what sees images, and more keys.
COMPOSITES = {
    "gemma3": ("Gemma3Config", WINDOWED | {"query_pre_attn_scalar": 16}, SQUARE, {"mm_tokens_per_image": 4}),
    "mistral3": ("Mistral3Config", {"model_type": "mistral", "head_dim": 16}, SQUARE | {"head_dim": 8}, {}),
    "qwen3_5": (
        "Qwen3_5Config",
        DELTA | {"layer_types": ["linear_attention", "full_attention"]},
        {"hidden_size": 16, "intermediate_size": 16, "depth": 1, "num_heads": 2, "out_hidden_size": 32},
        {},
    ),
}
PREFIXES = {
    "model.language_model.": {"lm_head.weight": "lm_head.weight"},
    "language_model.model.": {"lm_head.weight": "language_model.lm_head.weight"},
}


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("family", COMPOSITES)
def test_the_text_part_is_a_model(group, tmp_path, family: str, prefix: str) -> None:
    kind, text, sight, more = COMPOSITES[family]
    torch.manual_seed(0)
    config = getattr(transformers, kind)(text_config=TEXT | text, vision_config=sight, **more)
    whole = AutoModelForImageTextToText.from_config(config)
    config.save_pretrained(tmp_path)
    head = {} if config.tie_word_embeddings else {"lm_head.weight": whole.lm_head.weight}
    text_tensors = {name: p for name, p in whole.model.language_model.named_parameters()}
    files = {prefix + name: p.detach().clone() for name, p in text_tensors.items()}
    files |= {PREFIXES[prefix][name]: p.detach().clone() for name, p in head.items()}
    files |= {"model.visual.other.weight": torch.zeros(3)}
    save_file(files, tmp_path / "model.safetensors")

    assert check_config(str(tmp_path), "") == VOCABULARY
    network = Network(Spec(str(tmp_path)), {}, group.layout)
    got = dict(network.inner.named_parameters())
    want = {"model." + name: p for name, p in text_tensors.items()} | head
    assert got.keys() == want.keys()
    for name, p in want.items():
        assert torch.equal(got[name], p), name

    network.save(str(tmp_path / "saved"), True)
    assert not any("visual" in name for name in load_file(tmp_path / "saved" / "model.safetensors"))
    saved, whole = AutoModelForCausalLM.from_pretrained(tmp_path / "saved").eval(), whole.eval()
    assert saved.config.model_type == config.text_config.model_type
    ids = torch.randint(0, VOCABULARY, (1, 12))
    with torch.no_grad():
        assert (saved(ids).logits - whole(input_ids=ids).logits).abs().max() < 1e-5
