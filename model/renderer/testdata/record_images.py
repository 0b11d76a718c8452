"""Records the tokens of chats with images from transformers' processors: python3 record_images.py > images.json

It needs Pillow, numpy and transformers 5. The tokenizer is that of record.py with the tokens of images. A chat without
images is tokenized without these tokens, because what looks like one in a message is text.
"""
import json
import os

from PIL import Image
from transformers import PreTrainedTokenizerFast
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
from transformers.models.gemma3.processing_gemma3 import Gemma3Processor
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.idefics3.processing_idefics3 import Idefics3Processor
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

HERE = os.path.dirname(os.path.abspath(__file__))


def template(image):
    return (
        "{% for message in messages %}<|im_start|>{{ message.role }}\n{% if message.content is string %}{{ message.content }}{% else %}"
        "{% for part in message.content %}{% if part.type == 'image' %}" + image + "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
        "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )


def tokenizer(tokens, **names):
    t = PreTrainedTokenizerFast(tokenizer_file=os.path.join(HERE, "tokenizer", "tokenizer.json"), extra_special_tokens=names)
    t.add_special_tokens({"additional_special_tokens": tokens})
    return t


class Simple:
    """Qwen's processor needs torchvision for videos. This does what it does for images: the placeholder, once for each merged patch."""

    def __init__(self, images, t):
        self.images, self.t = images, t

    def __call__(self, text, images):
        for i, grid in enumerate(self.images(images=images)["image_grid_thw"]):
            text = [text[0].replace("<|image_pad|>", "<pad>" * (int(grid[1] * grid[2]) // self.images.merge_size**2), 1)]
        return self.t([text[0].replace("<pad>", "<|image_pad|>")])


def qwen(t):
    return Simple(Qwen2VLImageProcessorPil(min_pixels=56 * 56, max_pixels=56 * 112), t)


def idefics(t):
    square = {"longest_edge": 64}
    return Idefics3Processor(Idefics3ImageProcessorPil(do_image_splitting=False, size=square, max_image_size=square), t, image_seq_len=16)


def gemma(t):
    return Gemma3Processor(Gemma3ImageProcessorPil(size={"height": 56, "width": 56}), t, image_seq_length=49)


FAMILIES = [
    ("qwen", qwen, "<|vision_start|><|image_pad|><|vision_end|>", ["<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>"], {}),
    ("idefics", idefics, "<image>", ["<image>", "<fake_token_around_image>", "<global-img>"], {}),
    ("gemma", gemma, "<start_of_image>", ["<start_of_image>", "<image_soft_token>", "<end_of_image>"],
     {"boi_token": "<start_of_image>", "image_token": "<image_soft_token>", "eoi_token": "<end_of_image>"}),
]
TEXT = {"type": "text", "text": "What is the sum?"}
IMAGES = [[60, 60], [110, 50]]
CHATS = [
    [{"role": "user", "content": [{"type": "image"}, TEXT]}],
    [{"role": "user", "content": [TEXT, {"type": "image"}, {"type": "text", "text": "\nand\n"}, {"type": "image"}]}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "image"}]}, {"role": "assistant", "content": "It is 3."},
     {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "again"}]}],
]


def main():
    rows = []
    for name, make, image, tokens, names in FAMILIES:
        t = tokenizer(tokens, **names)
        plain = PreTrainedTokenizerFast(tokenizer_file=os.path.join(HERE, "tokenizer", "tokenizer.json"))
        processor = make(t)
        added = [[t.convert_tokens_to_ids(x), x] for x in tokens]
        for chat in CHATS:
            n = sum(p["type"] == "image" for m in chat if isinstance(m["content"], list) for p in m["content"])
            pictures = [Image.new("RGB", tuple(size)) for size in IMAGES[:n]]
            text = t.apply_chat_template(chat, chat_template=template(image), tokenize=False, add_generation_prompt=True)
            ids = processor(text=[text], images=[pictures] if name != "qwen" else pictures)["input_ids"][0]
            rows.append({"family": name, "template": template(image), "added": added, "chat": chat, "sizes": IMAGES[:n], "tokens": list(map(int, ids))})
        words = [{"role": "user", "content": "What is " + "".join(tokens) + " and " + tokens[0] + "?"}]
        text = plain.apply_chat_template(words, chat_template=template(image), tokenize=False, add_generation_prompt=True)
        rows.append({"family": name, "template": template(image), "added": added, "chat": words, "sizes": [], "tokens": plain(text)["input_ids"]})
    print(json.dumps(rows))


main()
