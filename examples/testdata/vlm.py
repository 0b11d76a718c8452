"""Makes tiny random models that read images, and scores sequences with transformers' own code.

python3 vlm.py make qwen2_5_vl|idefics3 DIR
python3 vlm.py score DIR < SEQUENCES: a list of {"tokens", "images"}, with the paths of PNG files; writes their log-probabilities
"""
import json
import sys

import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

TURN = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
    "{% if p.type == 'image' %}IMAGE{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MEAN = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "do_rescale": True, "do_normalize": True, "do_resize": True}
SIZE = {"vocab_size": 320, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
TEXT = {**SIZE, "num_key_value_heads": 1, "max_position_embeddings": 2048, "eos_token_id": 0, "pad_token_id": 1, "bos_token_id": 1}


def tokenizer(directory, image, special, **names):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    special = ["<|im_end|>", "<|endoftext|>", "<|im_start|>", *special]
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    t.train_from_iterator(["what colour is the square? it is red. the answer is blue green"] * 20, trainer)
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=t, eos_token="<|im_end|>", pad_token="<|endoftext|>", extra_special_tokens=names
    )
    fast.chat_template = TURN.replace("IMAGE", image)
    fast.save_pretrained(directory)
    return fast.convert_tokens_to_ids


def qwen2_5_vl(directory):
    start, end, pad, video = "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"
    names = {"image_token": pad, "video_token": video, "vision_bos_token": start, "vision_eos_token": end}
    ids = tokenizer(directory, start + pad + end, [start, end, pad, video], **names)
    rope = {"rope_type": "default", "mrope_section": [4, 6, 6], "rope_theta": 1e6}
    tower = {"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "patch_size": 14, "out_hidden_size": 64}
    config = transformers.Qwen2_5_VLConfig(
        text_config={**TEXT, "model_type": "qwen2_5_vl_text", "rope_parameters": rope},
        vision_config={**tower, "window_size": 56, "fullatt_block_indexes": [1]},
        image_token_id=ids(pad), video_token_id=ids(video), vision_start_token_id=ids(start), vision_end_token_id=ids(end),
        tie_word_embeddings=False,
    )
    pixels = {"min_pixels": 28 * 28 * 4, "max_pixels": 28 * 28 * 16, "size": {"shortest_edge": 28 * 28 * 4, "longest_edge": 28 * 28 * 16}}
    patches = {"patch_size": 14, "temporal_patch_size": 2, "merge_size": 2}
    processor = {"image_processor_type": "Qwen2VLImageProcessor", "processor_class": "Qwen2_5_VLProcessor"}
    return config, {**processor, **pixels, **patches, **MEAN}


def idefics3(directory):
    image, fake, whole = "<image>", "<fake_token_around_image>", "<global-img>"
    names = {"image_token": image, "fake_image_token": fake, "global_image_token": whole, "end_of_utterance_token": "<end_of_utterance>"}
    ids = tokenizer(directory, image, [image, fake, whole, "<end_of_utterance>"], **names)
    tower = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 64, "patch_size": 8}
    config = transformers.Idefics3Config(
        text_config={**TEXT, "model_type": "llama"}, vision_config=tower, image_token_id=ids(image), scale_factor=4,
        tie_word_embeddings=False, pad_token_id=1,
    )
    with open(directory + "/processor_config.json", "w") as out:
        json.dump({"processor_class": "Idefics3Processor", "image_seq_len": 4}, out)
    processor = {"image_processor_type": "Idefics3ImageProcessor", "processor_class": "Idefics3Processor", "do_image_splitting": False}
    edges = {"size": {"longest_edge": 64}, "max_image_size": {"longest_edge": 64}, "do_pad": True, "do_convert_rgb": True, "resample": 1}
    return config, {**processor, **edges, **MEAN}


def make(family, directory):
    torch.manual_seed(1)
    config, processor = {"qwen2_5_vl": qwen2_5_vl, "idefics3": idefics3}[family](directory)
    model = transformers.AutoModelForImageTextToText.from_config(config)
    with torch.no_grad():
        for p in model.parameters():  # a new model's logits are too equal to tell anything
            p.mul_(3 if p.dim() > 1 else 1)
    model.save_pretrained(directory)
    with open(directory + "/preprocessor_config.json", "w") as out:
        json.dump(processor, out)


def score(directory):
    model = transformers.AutoModelForImageTextToText.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
    prepare = transformers.AutoImageProcessor.from_pretrained(directory)
    out = []
    for s in json.load(sys.stdin):
        x = torch.tensor([s["tokens"]])
        inputs = dict(prepare(images=[Image.open(p) for p in s["images"]], return_tensors="pt"))
        if "qwen" in model.config.model_type:
            kinds = (x == model.config.image_token_id).int()
            grid = inputs["image_grid_thw"]
            inputs["position_ids"], _ = model.model.get_rope_index(x, mm_token_type_ids=kinds, image_grid_thw=grid)
        with torch.no_grad():
            logits = model(input_ids=x, attention_mask=torch.ones_like(x), **inputs).logits[0].float()
        out.append(torch.log_softmax(logits[:-1], -1).gather(-1, x[0, 1:, None])[:, 0].tolist())
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    {"make": make, "score": score}[sys.argv[1]](*sys.argv[2:])
