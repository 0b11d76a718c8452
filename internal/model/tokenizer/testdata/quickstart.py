#!/usr/bin/env python3
"""Writes config.json, tokenizer.json and tokenizer_config.json of the quickstart's model into the folder named, and checks that
transformers reads them as meant.

    python quickstart.py ../../examples/quickstart/model
"""
import json
import sys
from pathlib import Path

from tokenizers import pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from record import added, byte_level

TEMPLATE = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message['role'] + '\\n' }}
    {%- if message['role'] == 'assistant' %}
        {%- generation %}
            {{- message['content'] + '<|im_end|>' }}
        {%- endgeneration %}
    {%- else %}
        {{- message['content'] + '<|im_end|>' }}
    {%- endif %}
    {{- '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 272, "max_position_embeddings": 512, "hidden_act": "silu",
    "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "attention_bias": False, "mlp_bias": False, "attention_dropout": 0.0, "initializer_range": 0.02,
    "tie_word_embeddings": True, "bos_token_id": None, "eos_token_id": 258, "pad_token_id": 256, "torch_dtype": "float32", "use_cache": True,
}


def byte_character(b):
    """The byte's character in the byte-level alphabet: printable Latin-1 stands for itself, the others follow from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return chr(b) if b in plain else chr(256 + [i for i in range(256) if i not in plain].index(b))


def tokenizer():
    vocab = {byte_character(b): b for b in range(256)}
    assert sorted(vocab) == sorted(pre_tokenizers.ByteLevel.alphabet())
    # The tags of the reply are text for the reward to see; only the first three are left out when decoding.
    tokens = added(256, "<|endoftext|>", "<|im_start|>", "<|im_end|>", *((t, "normal") for t in ("<think>", "</think>", "<answer>", "</answer>")))
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": None, "pre_tokenizer": byte_level(False, False),
            "post_processor": None, "decoder": byte_level(False, False),
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                      "byte_fallback": False, "ignore_merges": False, "vocab": vocab, "merges": []}}


def main(folder):
    specials = {"bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": None}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, "model_max_length": 512, **specials, "chat_template": TEMPLATE}
    for name, content in ("config.json", CONFIG), ("tokenizer.json", tokenizer()), ("tokenizer_config.json", settings):
        (folder / name).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n")

    t = AutoTokenizer.from_pretrained(folder)
    chat = [{"role": "user", "content": "17+25=?"}]
    prompt = "<|im_start|>user\n17+25=?<|im_end|>\n<|im_start|>assistant\n"
    assert t.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) == prompt
    assert len(t(prompt).input_ids) == 26 and t("é").input_ids == list("é".encode())
    assert (t.eos_token_id, t.pad_token_id, len(t)) == (258, 256, 263)
    reply = "<think>7+5=12,1+2+1=4</think><answer>42</answer>"
    chat += [{"role": "assistant", "content": reply}]
    both = t.apply_chat_template(chat, return_dict=True, return_assistant_tokens_mask=True)
    written = [i for i, m in zip(both["input_ids"], both["assistant_masks"]) if m]
    assert t.decode(written) == reply + "<|im_end|>" and t.decode(written, skip_special_tokens=True) == reply
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    assert sum(p.numel() for p in model.parameters()) == 428_672
    print("ok")


main(Path(sys.argv[1]))
