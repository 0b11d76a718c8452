"""Records what Pillow and transformers make of images: python3 record.py > vision.json

It needs Pillow, numpy and transformers 5. The images are made by a formula that the tests have too.
"""

import base64
import hashlib
import io
import json
import random

import numpy as np
from PIL import Image, ImageOps
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil


def made(width, height):
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    h = (x // 5 * 73856093) ^ (y // 7 * 19349663) ^ (c * 83492791)
    return ((h ^ (h >> 7)) % 251 + (x + y) % 5).astype(np.uint8)


def digest(image):
    return hashlib.sha256(image.tobytes()).hexdigest()


def resized():
    rows = []
    sizes = [((333, 211), (336, 224)), ((333, 211), (512, 512)), ((64, 48), (896, 896)), ((900, 31), (84, 28)),
             ((17, 900), (28, 1400)), ((1, 1), (56, 56)), ((1, 300), (512, 512)), ((512, 512), (512, 512)), ((40, 30), (40, 7))]
    for filter in (Image.Resampling.LANCZOS, Image.Resampling.BILINEAR, Image.Resampling.BICUBIC):
        for source, target in sizes:
            out = Image.fromarray(made(*source)).resize(target, filter)
            rows.append({"filter": int(filter), "from": source, "to": target, "sha256": digest(out), "first": list(out.tobytes()[:24])})
    return rows


def fitted():
    random.seed(7)
    rows = []
    for config in ({}, {"patch_size": 16, "size": {"shortest_edge": 16384, "longest_edge": 1048576}},
                   {"min_pixels": 3136, "max_pixels": 20000}):
        processor = Qwen2VLImageProcessorPil(**config)
        for i in range(30):
            width = random.choice([1, 5, 14, 28, 42, random.randint(1, 60), random.randint(1, 400)])
            height = random.choice([1, 5, 14, 28, 70, random.randint(1, 60), random.randint(1, 400)])
            row = {"config": dict(config, image_processor_type="Qwen2VLImageProcessor"), "size": [width, height]}
            try:
                grid = processor(images=Image.new("RGB", (width, height)), return_tensors="np")["image_grid_thw"][0].tolist()
                row |= {"grid": grid, "tokens": grid[1] * grid[2] // processor.merge_size**2}
            except ValueError:
                pass  # the processor refuses it
            rows.append(row)
    return rows


def squares():
    rows = []
    one = {"do_image_splitting": False, "size": {"longest_edge": 64}, "max_image_size": {"longest_edge": 64}, "resample": 1}
    both = {"size": {"height": 56, "width": 56}, "resample": 2, "do_pan_and_scan": None}
    for name, processor, config, side in (("SmolVLMImageProcessor", SmolVLMImageProcessorPil, one, 64),
                                          ("Gemma3ImageProcessor", Gemma3ImageProcessorPil, both, 56)):
        for source in ((64, 64), (56, 56), (100, 37)):
            # The image that is resized once: the processor must leave it as it is.
            image = Image.fromarray(made(*source)).resize((side, side), config["resample"])
            values = processor(**config)(images=[[image]], return_tensors="np", do_rescale=False, do_normalize=False)["pixel_values"]
            values = values.reshape(3, *values.shape[-2:]).transpose(1, 2, 0).astype(np.uint8)
            assert (values == np.asarray(image)).all(), (name, source)
            rows.append({"config": dict(config, image_processor_type=name), "size": source, "shape": [values.shape[1], values.shape[0]],
                         "sha256": hashlib.sha256(values.tobytes()).hexdigest()})
    return rows


def corners(image):
    width, height = image.size
    return [list(image.getpixel(p)) for p in ((1, 1), (width - 2, 1), (1, height - 2), (width - 2, height - 2))]


def files():
    plain = Image.new("RGB", (24, 16))
    for i, colour in enumerate(((220, 30, 30), (30, 200, 40), (30, 40, 220), (200, 200, 40))):
        plain.paste(colour, (i % 2 * 12, i // 2 * 8, i % 2 * 12 + 12, i // 2 * 8 + 8))
    rows = []

    def add(name, image, kind, **options):
        out = io.BytesIO()
        image.save(out, kind, **options)
        read = ImageOps.exif_transpose(Image.open(io.BytesIO(out.getvalue())))
        if read.mode in ("RGBA", "P", "LA"):
            read = Image.alpha_composite(Image.new("RGBA", read.size, "white"), read.convert("RGBA"))
        read = read.convert("RGB")
        rows.append({"name": name, "file": base64.b64encode(out.getvalue()).decode(), "size": read.size, "corners": corners(read)})

    for kind in ("JPEG", "PNG"):
        for turned in range(1, 9):
            exif = Image.Exif()
            exif[0x0112] = turned
            add(f"{kind} orientation {turned}", plain, kind, exif=exif)
    add("progressive JPEG", plain, "JPEG", progressive=True)
    add("gray JPEG", plain.convert("L"), "JPEG")
    add("CMYK JPEG", plain.convert("CMYK"), "JPEG")
    clear = plain.convert("RGBA")
    clear.putalpha(Image.linear_gradient("L").resize(plain.size))
    add("PNG with alpha", clear, "PNG")
    add("PNG of a palette", plain.quantize(4), "PNG")
    add("gray PNG with alpha", clear.convert("LA"), "PNG")
    add("GIF", plain.quantize(4), "GIF")
    for turned in (1, 6):
        exif = Image.Exif()
        exif[0x0112] = turned
        add(f"lossy WebP orientation {turned}", plain, "WEBP", quality=80, exif=exif)
        add(f"lossless WebP orientation {turned}", clear, "WEBP", lossless=True, exif=exif)
    add("lossy WebP with alpha", clear, "WEBP", quality=60)
    add("GIF of two frames", plain.quantize(4), "GIF", save_all=True, append_images=[Image.new("P", plain.size)])
    return rows


def webps():
    """The bytes that Pillow, with libwebp, makes of WebP files: of an odd size, sharp and smooth, lossy and lossless."""
    y, x = np.mgrid[0:37, 0:53]
    smooth = np.stack([x * 255 // 52, y * 255 // 36, (x + y) * 255 // 88], axis=-1).astype(np.uint8)
    rows = []
    for name, pixels, options in (("sharp", made(53, 37), {"quality": 90}), ("smooth", smooth, {"quality": 75}), ("coarse", smooth, {"quality": 5}),
                                  ("even", made(64, 48), {"quality": 80}), ("one pixel", made(1, 1), {"quality": 80}),
                                  ("line", made(2, 9), {"quality": 80}), ("lossless", made(53, 37), {"lossless": True}),
                                  ("sharp chroma", made(40, 30), {"quality": 70, "method": 6}), ("alpha", made(21, 18), {"quality": 80, "alpha": True})):
        image = Image.fromarray(pixels)
        if options.pop("alpha", False):
            image.putalpha(Image.linear_gradient("L").resize(image.size))
        out = io.BytesIO()
        image.save(out, "WEBP", **options)
        read = Image.open(io.BytesIO(out.getvalue())).convert("RGBA")
        rows.append({"name": name, "file": base64.b64encode(out.getvalue()).decode(), "size": read.size,
                     "rgba": base64.b64encode(read.tobytes()).decode()})
    film = io.BytesIO()
    Image.fromarray(smooth).save(film, "WEBP", save_all=True, append_images=[Image.fromarray(made(53, 37))])
    rows.append({"name": "film", "file": base64.b64encode(film.getvalue()).decode(), "size": [53, 37]})
    return rows


print(json.dumps({"webps": webps(), "resized": resized(), "fitted": fitted(), "squares": squares(), "files": files()}))
