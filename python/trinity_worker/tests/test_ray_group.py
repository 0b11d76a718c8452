"""The driver of a run as a job of Ray, with a module ray that has only names."""

import json
import os
import pathlib
import subprocess
import sys

PACKAGE = pathlib.Path(__file__).parent.parent

MODULES = {
    "ray/__init__.py": "class init:\n    dashboard_url = 'head:8265'\n    def __init__(self, **_): pass\n",
    "ray/experimental/__init__.py": "",
    "ray/experimental/internal_kv.py": "def _internal_kv_get(name): return b'{}'\ndef _internal_kv_del(name): pass\n",
    "ray/util/__init__.py": "",
    "ray/util/placement_group.py": "placement_group = None\n",
    "ray/util/scheduling_strategies.py": "NodeAffinitySchedulingStrategy = PlacementGroupSchedulingStrategy = None\n",
}


def drive(folder: pathlib.Path, command: list[str]) -> subprocess.CompletedProcess:
    for name, text in MODULES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    spec = {"run": "r", "driver": True, "command": command, "env": {"OWN": "7"}, "secret": {}}
    (folder / "trinity_group.json").write_text(json.dumps(spec))
    env = {**os.environ, "PYTHONPATH": f"{PACKAGE}{os.pathsep}{folder}", "TRINITY_RAY_SECRETS": "x"}
    return subprocess.run(
        [sys.executable, "-m", "trinity_worker.ray_group"],
        env=env, cwd=folder, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_driver(tmp_path: pathlib.Path) -> None:
    ran = drive(tmp_path, [sys.executable, "-c", "import os, sys; print(os.environ['OWN']); sys.exit(3)"])
    assert (ran.returncode, ran.stdout.strip()) == (3, "7"), ran.stderr


def test_driver_without_its_program(tmp_path: pathlib.Path) -> None:
    ran = drive(tmp_path, ["no-such-trinity", "run"])
    assert ran.returncode == 1
    want = (
        "no-such-trinity is not on the head node: put it on the PATH of its Ray, "
        "or set cluster.launcher_args.program to its path there"
    )
    assert ran.stderr.splitlines() == [want]
