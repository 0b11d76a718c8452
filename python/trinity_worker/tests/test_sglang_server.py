"""The start of SGLang, with a launch_server that says what it got."""

import os
import pathlib
import subprocess
import sys

PACKAGE = pathlib.Path(__file__).parent.parent

SERVER = """
import logging, sys
if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.info("all: %s", sys.argv[1:])
    print("key", sys.argv[-2:])
"""


def start(folder: pathlib.Path, key: str) -> subprocess.CompletedProcess:
    module = folder / "sglang"
    module.mkdir()
    (module / "__init__.py").touch()
    (module / "launch_server.py").write_text(SERVER)
    env = {**os.environ, "PYTHONPATH": f"{PACKAGE}{os.pathsep}{folder}", "SGLANG_API_KEY": key}
    return subprocess.run(
        [sys.executable, "-m", "trinity_worker.sglang_server", "--port", "7"],
        env=env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_key_comes_by_environment(tmp_path: pathlib.Path) -> None:
    ran = start(tmp_path, "sesame")
    assert ran.stdout.strip() == "key ['--api-key', 'sesame']"
    assert ran.stderr.strip() == "all: ['--port', '7', '--api-key', '***']"


def test_no_key(tmp_path: pathlib.Path) -> None:
    ran = start(tmp_path, "")
    assert ran.returncode == 1
    assert ran.stderr.strip() == "set SGLANG_API_KEY to the key that requests must bear"
