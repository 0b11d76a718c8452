"""The images of a request: the model's own processor makes values of them, and its tower makes features of these.

The features take the place of the embeddings of placeholder tokens. A request has each image once, however many sequences
have it. Two sequences share an image in their stem only if it is the same image, although its tokens are those of any other.
"""

import hashlib
import io
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from .wire import Arrays, BadRequest

ARRAYS = ("images", "image_bytes", "image_grids", "spans")
CACHE = 256 << 20  # bytes of values that stay: a batch is read again for the reference and for training
NEEDED = "reading images needs Pillow in the Python of the worker: python -m pip install pillow"


@dataclass
class Picture:
    """What the tower gets of an image."""

    values: dict[str, torch.Tensor]
    grid: tuple[int, int, int]  # frames, rows and columns of patches

    @property
    def bytes(self) -> int:
        return sum(v.nbytes for v in self.values.values())


class Eye:
    """How a model reads images."""

    def __init__(self, path: str, model: Any) -> None:
        """model is the part of the language model below its head."""
        try:
            import PIL.Image  # noqa: F401
        except ImportError as e:
            raise BadRequest(f"model {path}: {NEEDED}") from e
        from transformers import AutoImageProcessor

        self.path = path
        try:
            # The two processors of transformers give one canonical image the same values. This one needs no torchvision.
            self.processor: Any = AutoImageProcessor.from_pretrained(path, backend="pil")
        except Exception as e:  # transformers has errors of its own
            raise BadRequest(f"model {path}: its image processor does not load: {' '.join(str(e).split())}") from e
        self.placeholder = int(model.config.image_token_id)
        self.patch = int(model.config.vision_config.patch_size)
        self.index = getattr(model, "get_rope_index", None)  # positions of three dimensions; None for plain ones
        self.square = getattr(model, "image_seq_len", 0)  # tokens of an image, if all have as many
        self.cache: OrderedDict[bytes, Picture] = OrderedDict()

    def same(self, other: "Eye | None") -> bool:
        """Reports whether another model takes the same values and positions."""
        mine = self.processor.to_dict()
        return other is not None and (
            mine == other.processor.to_dict()
            and (self.placeholder, self.patch, self.square) == (other.placeholder, other.patch, other.square)
            and (self.index is None) == (other.index is None)
        )

    def read(self, png: bytes) -> Picture:
        """Returns what the processor makes of a file."""
        key = hashlib.sha256(png).digest()
        if key in self.cache:
            self.cache.move_to_end(key)
            return self.cache[key]
        from PIL import Image

        try:
            with Image.open(io.BytesIO(png)) as file:
                picture = self.process(file.convert("RGB"))
        except BadRequest:
            raise
        except Exception as e:  # of Pillow, which has many
            raise BadRequest(f"an image of {len(png)} bytes cannot be read: {e}") from e
        self.cache[key] = picture
        while sum(p.bytes for p in self.cache.values()) > CACHE and len(self.cache) > 1:
            self.cache.popitem(last=False)
        return picture

    def process(self, image: Any) -> Picture:
        """Returns what the processor makes of an image of Pillow."""
        made = self.processor(images=[image], return_tensors="pt")
        values = {k: v for k, v in made.items() if k in ("pixel_values", "image_grid_thw", "pixel_attention_mask")}
        if "image_grid_thw" in values:
            return Picture(values, tuple(int(n) for n in values["image_grid_thw"][0]))  # type: ignore[arg-type]
        *_, tiles, _, height, width = values["pixel_values"].shape
        if tiles != 1:
            raise BadRequest(
                f"the image processor of {self.path} cuts an image into {tiles}: "
                "set do_image_splitting to false in preprocessor_config.json"
            )
        return Picture(values, (1, height // self.patch, width // self.patch))

    @cached_property
    def blank(self) -> Picture:
        """Returns a small grey image."""
        from PIL import Image

        side = 2 * self.patch * getattr(self.processor, "merge_size", 1)
        return self.process(Image.new("RGB", (side, side), (128, 128, 128)))

    def tokens(self, grid: tuple[int, ...] | np.ndarray) -> int:
        """Returns the number of features of an image with so many patches."""
        return self.square or int(np.prod(grid)) // self.processor.merge_size**2

    def positions(self, count: int, spans: np.ndarray, grids: np.ndarray) -> np.ndarray:
        """Returns the positions [3, count] of a sequence whose images have these spans."""
        if self.index is None or not len(spans):
            return np.tile(np.arange(count), (3, 1))
        kinds = torch.zeros(1, count, dtype=torch.int32)
        for _, _, at, n in spans:
            kinds[0, at : at + n] = 1
        of_images = torch.from_numpy(grids[spans[:, 1]].astype(np.int64))
        got, _ = self.index(torch.zeros(1, count, dtype=torch.int64), mm_token_type_ids=kinds, image_grid_thw=of_images)
        return got[:, 0].numpy()


class Given:
    """The images of a request, and which feature each of its tokens has."""

    def __init__(self, arrays: Arrays, starts: np.ndarray, eye: Eye) -> None:
        """starts are the places at which sequences begin."""
        self.eye, self.spans, self.grids = eye, arrays["spans"], arrays["image_grids"]
        sizes = arrays["image_bytes"].astype(np.int64)
        data, ends = arrays["images"].tobytes(), np.cumsum(sizes)
        self.files = [data[end - size : end] for end, size in zip(ends, sizes, strict=True)]
        # Behind them is a blank image, for rows that have none.
        self.counts = np.array([eye.tokens(grid) for grid in (*self.grids, eye.blank.grid)], np.int64)
        self.firsts = np.cumsum(self.counts) - self.counts  # the number of each image's first feature
        self.features = np.full(len(arrays["tokens"]), -1, np.int64)  # of each token; -1 is none
        for sequence, image, at, n in self.spans.tolist():
            begin = starts[sequence] + at
            self.features[begin : begin + n] = self.firsts[image] + np.arange(n)
        self.blank = self.firsts[-1] + np.arange(self.counts[-1])  # its features

    def of(self, sequence: int) -> np.ndarray:
        """Returns the spans of a sequence."""
        return self.spans[self.spans[:, 0] == sequence]

    def positions(self, sequences: list[int], tokens: list[np.ndarray]) -> list[np.ndarray]:
        """Returns the positions [3, tokens] of each sequence of a row. Those behind the numbered ones have no image, or a
        blank one, whose positions do not matter."""
        spans = [self.of(i) for i in sequences]
        spans += [self.spans[:0]] * (len(tokens) - len(sequences))
        return [self.eye.positions(len(t), s, self.grids) for t, s in zip(tokens, spans, strict=True)]

    def seen(self, features: np.ndarray, device: torch.device) -> "Seen":
        """Returns the images of a row, from the feature of each of its tokens."""
        rows = np.flatnonzero(features >= 0)
        numbers = np.searchsorted(self.firsts, features[rows], side="right") - 1
        mine = np.unique(numbers)
        local = np.zeros(len(self.firsts), np.int64)
        local[mine] = np.cumsum(self.counts[mine]) - self.counts[mine]
        order = local[numbers] + features[rows] - self.firsts[numbers]
        pictures = [self.eye.read(self.files[i]) if i < len(self.files) else self.eye.blank for i in mine]
        return Seen.of(pictures, rows, order, device)


@dataclass
class Seen:
    """The images of a row on the device."""

    values: dict[str, torch.Tensor]
    rows: torch.Tensor  # that have a feature
    order: torch.Tensor  # the feature of each of these rows

    @classmethod
    def of(cls, pictures: list[Picture], rows: np.ndarray, order: np.ndarray, device: torch.device) -> "Seen":
        names = pictures[0].values
        # Idefics3 has all images of a row as those of one sample.
        along = {k: 1 if k != "image_grid_thw" and pictures[0].values[k].ndim > 2 else 0 for k in names}
        values = {k: torch.cat([p.values[k] for p in pictures], along[k]).to(device) for k in names}
        return cls(values, torch.from_numpy(rows).to(device), torch.from_numpy(order).to(device))


def part_of(model: Any, names: tuple[str, ...]) -> Any:
    """Returns the first part of a model that it has, by the names that families give it; None if it has none."""
    return next((part for name in names if (part := getattr(model, name, None)) is not None), None)


TEXT, TOWER = ("language_model", "text_model"), ("visual", "vision_model", "vision_tower")


def blocks(tower: Any) -> Any:
    """Returns the list of a tower's layers."""
    return part_of(tower, ("blocks", "layers")) or tower.encoder.layers


def check(eye: Eye, arrays: Arrays, lengths: np.ndarray) -> None:
    """Requires that a request's images are whole, and that each of their features has its token."""
    shapes = {
        "images": (np.uint8, 1),
        "image_bytes": (np.int32, 1),
        "image_grids": (np.int32, 2),
        "spans": (np.int32, 2),
    }
    for name, (dtype, dimensions) in shapes.items():
        array = arrays.get(name)
        if array is None or array.dtype != dtype or array.ndim != dimensions:
            raise BadRequest(f"array {name!r} is missing or of another type: images come with {', '.join(ARRAYS)}")
    sizes, grids, spans = (arrays[n] for n in ARRAYS[1:])
    if grids.shape != (len(sizes), 3) or spans.shape[1] != 4 or not len(spans) or not len(sizes) or sizes.min() < 1:
        raise BadRequest("image_grids must be [images, 3], spans [spans, 4], and image_bytes positive")
    if int(sizes.sum(dtype=np.int64)) != len(arrays["images"]):
        raise BadRequest(f"image_bytes must add up to the {len(arrays['images'])} bytes of images")
    _check_grids(eye, arrays["images"].tobytes(), sizes, grids)
    _check_spans(eye, arrays["tokens"], lengths, grids, spans)


def _check_grids(eye: Eye, data: bytes, sizes: np.ndarray, grids: np.ndarray) -> None:
    end = 0
    for number, (size, want) in enumerate(zip(sizes.tolist(), grids.tolist(), strict=True)):
        end += size
        try:
            got = eye.read(data[end - size : end]).grid
        except BadRequest as e:
            raise BadRequest(f"image {number}: {e}") from e
        if list(got) != want:
            raise BadRequest(
                f"image {number} becomes {got[1]}×{got[2]} patches by the image processor of {eye.path}, and had "
                f"{want[1]}×{want[2]} when it was sampled: is preprocessor_config.json another one?"
            )


def _check_spans(eye: Eye, tokens: np.ndarray, lengths: np.ndarray, grids: np.ndarray, spans: np.ndarray) -> None:
    starts = np.cumsum(lengths) - lengths
    before, end = -1, 0
    for sequence, image, at, n in spans.tolist():
        if not 0 <= sequence < len(lengths) or not 0 <= image < len(grids) or sequence < before:
            raise BadRequest(f"spans name sequence {sequence} and image {image}, which are not there or not in order")
        if sequence > before:
            before, end = sequence, 0
        gap = 1 if eye.index is not None and end else 0  # positions cannot tell neighbours from one image
        if at < end + gap or n < 1 or at + n > lengths[sequence]:
            raise BadRequest(f"an image of {n} tokens at {at} of sequence {sequence} overlaps another one or its end")
        end = at + n
        if n != eye.tokens(grids[image]):
            raise BadRequest(
                f"sequence {sequence} has {n} tokens at {at} for image {image}, of which the model makes "
                f"{eye.tokens(grids[image])} features"
            )
        if (tokens[starts[sequence] + at : starts[sequence] + end] != eye.placeholder).any():
            raise BadRequest(f"the tokens of an image at {at} of sequence {sequence} are not all {eye.placeholder}")


def check_placeholders(eye: Eye, arrays: Arrays, lengths: np.ndarray) -> None:
    """Requires that each placeholder that nobody sampled has a feature. A policy may sample one, which stays a token."""
    alone = (arrays["tokens"] == eye.placeholder) & (arrays["mask"] == 0)
    starts = np.cumsum(lengths) - lengths
    for sequence, _, at, n in arrays["spans"].tolist() if "spans" in arrays else ():
        alone[starts[sequence] + at : starts[sequence] + at + n] = False
    if alone.any():
        place = int(np.argmax(alone))
        sequence = int(np.searchsorted(starts, place, side="right")) - 1
        raise BadRequest(
            f"sequence {sequence} has {int(alone[starts[sequence] :][: lengths[sequence]].sum())} placeholder tokens "
            f"({eye.placeholder}) without an image, the first at token {place - starts[sequence]}"
        )
