"""Write a model of Qwen2.5-VL's shape with random weights: python model.py DIRECTORY."""

import json
import pathlib
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

WORDS = ["red", "green", "blue", "square", "user", "assistant"]
SPECIAL = ["<|im_end|>", "<|endoftext|>", "<|im_start|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for p in m['content'] %}{% if p['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}"
    "{{ p['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SIDE = 56  # pixels; an image is 4 tokens


def vocabulary() -> Tokenizer:
    """Bytes, and the example's words, each built letter by letter."""
    entries = {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges = []
    for word in WORDS:
        for end in range(2, len(word) + 1):
            pair = (word[: end - 1], word[end - 1])
            if pair not in merges:
                merges.append(pair)
            entries.setdefault(word[:end], len(entries))
    out = Tokenizer(models.BPE(vocab=entries, merges=merges))
    out.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    out.decoder = decoders.ByteLevel()
    out.add_special_tokens(SPECIAL)
    return out


def main(directory: str) -> None:
    torch.manual_seed(0)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=vocabulary(), eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=TEMPLATE
    )
    ids = {text: tokenizer.convert_tokens_to_ids(text) for text in SPECIAL}
    text = {
        "vocab_size": len(tokenizer), "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
        "rope_parameters": {"rope_type": "default", "mrope_section": [4, 6, 6], "rope_theta": 10000.0},
        "eos_token_id": ids["<|im_end|>"], "pad_token_id": ids["<|endoftext|>"], "bos_token_id": ids["<|endoftext|>"],
    }
    vision = {
        "depth": 2, "hidden_size": 64, "intermediate_size": 128, "num_heads": 2, "patch_size": 14, "out_hidden_size": 128,
        "window_size": 56, "fullatt_block_indexes": [1],
    }
    config = Qwen2_5_VLConfig(
        text_config=text, vision_config=vision, image_token_id=ids["<|image_pad|>"], video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"], vision_end_token_id=ids["<|vision_end|>"], tie_word_embeddings=False,
    )
    model = Qwen2_5_VLForConditionalGeneration(config)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    (pathlib.Path(directory) / "preprocessor_config.json").write_text(json.dumps({
        "image_processor_type": "Qwen2VLImageProcessor", "processor_class": "Qwen2_5_VLProcessor", "patch_size": 14,
        "temporal_patch_size": 2, "merge_size": 2, "min_pixels": SIDE * SIDE, "max_pixels": SIDE * SIDE,
        "size": {"shortest_edge": SIDE * SIDE, "longest_edge": SIDE * SIDE}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
        "do_resize": True, "do_normalize": True, "do_rescale": True, "do_convert_rgb": True,
    }))
    print(f"{directory}: {sum(p.numel() for p in model.parameters()):,} weights")


if __name__ == "__main__":
    main(sys.argv[1])
