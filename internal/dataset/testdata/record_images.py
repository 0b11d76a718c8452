"""Writes images/rows.parquet with the datasets library and Pillow: python record_images.py, in this directory.

Row i has an image of i + 1 by 2 pixels, and a list of i of them.
"""

import io

from datasets import Dataset, Features, Image, List, Value
from PIL import Image as Picture


def png(width):
    out = io.BytesIO()
    Picture.new("RGB", (width, 2), (200, 10, 60)).save(out, "PNG")
    return {"bytes": out.getvalue(), "path": None}


rows = {
    "question": ["one", "two", "three"],
    "image": [png(1), png(2), None],
    "images": [[], [png(2)], [png(3), png(3)]],
}
features = Features({"question": Value("string"), "image": Image(), "images": List(Image())})
Dataset.from_dict(rows, features=features).to_parquet("images/rows.parquet")
