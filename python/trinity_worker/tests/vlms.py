"""A tiny random model of each family that reads images, and requests with images."""

import io
import json
from pathlib import Path

import numpy as np
import torch
import transformers
from PIL import Image
from transformers import AutoImageProcessor, AutoModelForImageTextToText

VOCABULARY, PLACEHOLDER = 96, 90
TEXT = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2,
    "num_key_value_heads": 1, "max_position_embeddings": 512, "initializer_range": 0.2, "pad_token_id": None,
    "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
SMOL_TOWER = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 32,
    "patch_size": 4, "initializer_range": 0.2,
}  # fmt: skip
QWEN_IDS = {"image_token_id": PLACEHOLDER, "video_token_id": 91, "vision_start_token_id": 92, "vision_end_token_id": 93}
QWEN_TOWER = {
    "depth": 3,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_heads": 2,
    "out_hidden_size": 32,
    "initializer_range": 0.2,
}


def _mrope(section: list[int], **more) -> dict:
    return {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": section, **more}}


SQUARE = {
    "image_processor_type": "Idefics3ImageProcessor", "do_image_splitting": False, "size": {"longest_edge": 32},
    "max_image_size": {"longest_edge": 32},
}  # fmt: skip


def _area(patch: int) -> dict:
    return {
        "image_processor_type": "Qwen2VLImageProcessor", "patch_size": patch, "merge_size": 2, "temporal_patch_size": 2,
        "size": {"shortest_edge": 4 * patch * patch, "longest_edge": 400 * patch * patch},
    }  # fmt: skip


# The class of the configuration, what it has, and the processor's file.
VLMS = {
    "smolvlm": (
        "SmolVLMConfig",
        {
            "text_config": TEXT | {"model_type": "llama", "num_hidden_layers": 2}, "vision_config": SMOL_TOWER,
            "image_token_id": PLACEHOLDER, "scale_factor": 2, "tie_word_embeddings": True,
        },
        SQUARE | {"image_processor_type": "SmolVLMImageProcessor"},
    ),
    "idefics3": (
        "Idefics3Config",
        {
            "text_config": TEXT | {"model_type": "llama", "num_hidden_layers": 2}, "vision_config": SMOL_TOWER,
            "image_token_id": PLACEHOLDER, "scale_factor": 4, "tie_word_embeddings": False,
        },
        SQUARE,
    ),
    "qwen2_5_vl": (
        "Qwen2_5_VLConfig",
        {
            "text_config": TEXT | {"num_hidden_layers": 2} | _mrope([2, 3, 3]), **QWEN_IDS, "tie_word_embeddings": False,
            "vision_config": QWEN_TOWER | {"patch_size": 4, "window_size": 16, "fullatt_block_indexes": [1]},
        },
        _area(4),
    ),
    "qwen3_vl": (
        "Qwen3VLConfig",
        {
            "text_config": TEXT | {"num_hidden_layers": 3, "head_dim": 16} | _mrope([4, 2, 2], mrope_interleaved=True),
            **QWEN_IDS, "tie_word_embeddings": True,
            "vision_config": QWEN_TOWER | {"patch_size": 4, "deepstack_visual_indexes": [0, 1], "num_position_embeddings": 64},
        },
        _area(4),
    ),
}  # fmt: skip


def tiny(family: str, path: Path) -> Path:
    """Saves a model of a family and returns its directory."""
    kind, config, processor = VLMS[family]
    torch.manual_seed(0)
    model = AutoModelForImageTextToText.from_config(getattr(transformers, kind)(**config))
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim == 1:  # which begin at 0 or 1
                p.add_(torch.randn_like(p) * 0.2)
    assert sum(p.numel() for p in model.parameters()) <= 270_000
    model.save_pretrained(path)
    (path / "preprocessor_config.json").write_text(json.dumps(processor))
    (path / "witness").write_text("nonce")
    return path


def png(seed: int, width: int, height: int) -> bytes:
    out = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


class Request:
    """Sequences with images, as a request and for transformers."""

    def __init__(self, family: str, path: Path, seed: int = 0) -> None:
        self.square, self.path = family in ("smolvlm", "idefics3"), path
        sides = [(32, 32), (32, 32)] if self.square else [(16, 24), (32, 16)]
        self.files = [png(i, *size) for i, size in enumerate(sides)]
        self.grids = [(1, h // 4, w // 4) for w, h in sides]
        scale = {"smolvlm": 2, "idefics3": 4}.get(family, 0)
        self.counts = [64 // scale**2] * 2 if scale else [h * w // 4 for _, h, w in self.grids]
        self.r = np.random.default_rng(seed)
        self.sequences: list[np.ndarray] = []
        self.spans: list[list[int]] = []
        self.ranks: list[int] = []

    def text(self, n: int) -> list[int]:
        return self.r.integers(0, PLACEHOLDER, n).tolist()

    def add(self, *parts: list[int] | int, rank: int = 0) -> None:
        """Adds a sequence of texts and the numbers of images."""
        tokens: list[int] = []
        for part in parts:
            if isinstance(part, int):
                self.spans.append([len(self.sequences), part, len(tokens), self.counts[part]])
                part = [PLACEHOLDER] * self.counts[part]
            tokens += part
        self.sequences.append(np.array(tokens, np.int32))
        self.ranks.append(rank)

    def arrays(self) -> dict:
        lengths = np.array([len(s) for s in self.sequences], np.int32)
        tokens = np.concatenate(self.sequences)
        mask = (tokens != PLACEHOLDER).astype(np.uint8)
        mask[np.cumsum(lengths) - lengths] = 0
        out = {
            "tokens": tokens, "lengths": lengths, "mask": mask, "rank": np.array(self.ranks, np.int32),
            "temperature": np.ones(len(lengths), np.float32),
        }  # fmt: skip
        return out | self.images() if self.spans else out

    def images(self) -> dict:
        return {
            "images": np.frombuffer(b"".join(self.files), np.uint8),
            "image_bytes": np.array([len(f) for f in self.files], np.int32),
            "image_grids": np.array(self.grids, np.int32),
            "spans": np.array(self.spans, np.int32),
        }

    def oracle(self, derivatives: np.ndarray, model=None) -> tuple[np.ndarray, dict]:
        """Returns the log-probabilities that transformers' own model gives each sequence alone, and the gradient of their
        sum times derivatives."""
        processor = AutoImageProcessor.from_pretrained(self.path, backend="pil")
        model = model or AutoModelForImageTextToText.from_pretrained(self.path, attn_implementation="eager").eval()
        logprobs, loss, at = [], 0.0, 0
        for number, tokens in enumerate(self.sequences):
            ids = torch.from_numpy(tokens.astype(np.int64))[None]
            files = [Image.open(io.BytesIO(self.files[i])) for s, i, _, _ in self.spans if s == number]
            values = dict(processor(images=[files] if self.square else files, return_tensors="pt")) if files else {}
            values = {k: v for k, v in values.items() if torch.is_tensor(v)}
            if files and not self.square:
                values["mm_token_type_ids"] = (ids == PLACEHOLDER).int()
            logits = model(ids, attention_mask=torch.ones_like(ids), use_cache=False, **values).logits[0, :-1].float()
            got = torch.log_softmax(logits, -1).gather(1, ids[0, 1:, None])[:, 0]
            loss = loss + (got * torch.from_numpy(derivatives[at + 1 : at + len(tokens)])).sum()
            logprobs.append(np.concatenate([[0], got.detach().numpy()]))
            at += len(tokens)
        loss.backward()
        return np.concatenate(logprobs), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


def witness(path: Path) -> dict[str, str]:
    return {"file": str(path / "witness"), "nonce": "nonce"}
