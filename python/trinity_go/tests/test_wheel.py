"""The wheel of a built program (TRINITY_BINARY), installed without an index into an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

import trinity_go as tg

EXAMPLES = Path(__file__).parents[3] / "examples"
BIN = "Scripts" if os.name == "nt" else "bin"


class Installed:
    """An environment that has the wheel, and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "venv" / BIN
        self.site = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "venv")}))
        own = ("PYTHONPATH", "TRINITY_BINARY", "TRINITY_PYTHON", "VIRTUAL_ENV")
        self.env = {name: value for name, value in os.environ.items() if name not in own}
        self.env["TRINITY_CHECKPOINT_ROOT_DIR"] = str(folder / "runs")
        subprocess.run([sys.executable, "-m", "venv", self.bin.parent], check=True)
        self.before = self.files()
        self.wheel = wheel_in(folder)
        self.run("python", "-m", "pip", "install", "--quiet", "--no-index", self.wheel)

    def run(self, program: str, *args: str | Path) -> str:
        done = subprocess.run(
            [self.bin / program, *args], cwd=EXAMPLES.parent, env=self.env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def files(self) -> set[Path]:
        return {path for path in self.bin.parent.rglob("*") if "__pycache__" not in path.parts}


def wheel_in(folder: Path) -> Path:
    made = subprocess.run([tg.binary(), "wheel", "--output", folder], capture_output=True, text=True, check=True)
    return Path(made.stdout.strip())


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    try:
        tg.binary()
    except tg.NotInstalled as missing:
        pytest.skip(f"TRINITY_BINARY names no program: {missing}")
    one = Installed(tmp_path_factory.mktemp("installed"))
    yield one
    one.run("python", "-m", "pip", "uninstall", "--quiet", "--yes", "trinity-go")
    assert one.files() == one.before


def test_the_program(installed: Installed) -> None:
    installed.run("python", "-m", "pip", "check")
    version = installed.run("trinity", "version")
    assert version.startswith("trinity ")
    assert version == installed.run("python", "-m", "trinity_go", "version") == installed.run("trinity-go", "version")
    short = ("stages.0.buffer.total_steps=1", "stages.1.buffer.total_steps=1")
    said = installed.run("trinity", "run", "--config", EXAMPLES / "quickstart" / "quickstart.yaml", *short)
    assert "warmup  sft        1 " in said, said


def test_an_example(installed: Installed) -> None:
    said = installed.run("python", EXAMPLES / "python" / "reward.py")
    first, last = (float(said.rpartition("/mean: ")[2].split()[i]) for i in (0, 3))
    assert last > first, said


def test_the_notebook(installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    beside = installed.site / "of_the_tests.pth"  # Jupyter and pandas are those of the tests, behind the wheel
    kernel = installed.wheel.parent / "jupyter" / "kernels" / "installed" / "kernel.json"
    kernel.parent.mkdir(parents=True)
    argv = [str(installed.bin / "python"), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    kernel.write_text(json.dumps({"argv": argv, "display_name": "installed", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(kernel.parents[2]))
    for name in {*os.environ} - {*installed.env, "JUPYTER_PATH"}:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TRINITY_CHECKPOINT_ROOT_DIR", installed.env["TRINITY_CHECKPOINT_ROOT_DIR"])
    book = nbformat.read(EXAMPLES / "python" / "notebook.ipynb", as_version=4)
    book.cells.append(nbformat.v4.new_code_cell("print(tg.__file__, tg.binary())"))
    folder = {"metadata": {"path": os.fspath(EXAMPLES / "python")}}
    beside.write_text(sysconfig.get_path("purelib"))
    try:
        nbclient.NotebookClient(book, timeout=300, resources=folder, kernel_name="installed").execute()
    finally:
        beside.unlink()
    outputs = [out for cell in book.cells if cell.cell_type == "code" for out in cell.outputs]
    pages = [out.data["text/html"] for out in outputs if "text/html" in out.get("data", {})]
    assert any("<polyline" in page and "<td>finished</td>" in page for page in pages)
    assert any("rollout/reward/mean" in page for page in pages)
    assert outputs[-1].text.split() == [
        str(installed.site / "trinity_go" / "__init__.py"),
        str(installed.bin / "trinity"),
    ]


@pytest.mark.skipif(not os.environ.get("TRINITY_HEAVY"), reason="packing it again takes half a minute: TRINITY_HEAVY=1")
def test_the_same_bytes(installed: Installed, tmp_path: Path) -> None:
    again = wheel_in(tmp_path)
    assert again.name == installed.wheel.name
    assert again.read_bytes() == installed.wheel.read_bytes()
