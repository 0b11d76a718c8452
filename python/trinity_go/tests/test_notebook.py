"""The notebook of the examples, in a kernel."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import trinity_go as tg

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

NOTEBOOK = Path(__file__).parents[3] / "examples" / "python" / "notebook.ipynb"


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        tg.binary()
    except tg.NotInstalled as missing:
        pytest.skip(f"TRINITY_BINARY names no program: {missing}")
    monkeypatch.setenv("PYTHONPATH", str(Path(tg.__file__).parents[1]))
    monkeypatch.setenv("TRINITY_CHECKPOINT_ROOT_DIR", str(tmp_path))
    book = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": os.fspath(NOTEBOOK.parent)}}).execute()
    outputs = [out for cell in book.cells if cell.cell_type == "code" for out in cell.outputs]
    pages = [out.data["text/html"] for out in outputs if "text/html" in out.get("data", {})]
    assert any("<polyline" in page and "<td>finished</td>" in page for page in pages)
    assert any("rollout/reward/mean" in page for page in pages)
