"""The start of vLLM by version, with servers that say what they got."""

import os
import pathlib
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).parent.parent
OLD, NEW = "vllm/entrypoints/openai/api_server.py", "vllm/entrypoints/launchers/api_server/entry.py"


@pytest.mark.parametrize(("there", "started"), [([OLD], OLD), ([OLD, NEW], NEW), ([NEW], NEW), ([], "")])
def test_start_by_version(tmp_path: pathlib.Path, there: list[str], started: str) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text("import os; print('imported by', os.getpid())")
    for name in there:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"import os, sys; print({name!r}, sys.argv[1:], os.getpid())")
    env = {**os.environ, "PYTHONPATH": f"{PACKAGE}{os.pathsep}{tmp_path}"}
    flags = ["--model", "m", "--port", "7"]
    ran = subprocess.Popen(
        [sys.executable, "-m", "trinity_worker.vllm_server", *flags],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    out, err = ran.communicate(timeout=60)
    if not started:
        assert ran.returncode == 1
        assert err.startswith("vLLM has no API server at ")
        return
    assert out.splitlines() == [f"imported by {ran.pid}", f"{started} {flags} {ran.pid}"], err
