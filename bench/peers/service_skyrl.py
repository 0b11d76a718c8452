"""SkyRL-tx with its JAX backend on the CPU."""
import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile

from service_client import Loop, wait
from turns import serve, spec

here = tempfile.mkdtemp(prefix="trinity-bench-skyrl-")
with open(os.path.join(here, "uv"), "w") as f:  # the server starts its engine by `uv run --extra … -m …`
    f.write(f'#!/bin/sh\nshift\nwhile [ "$1" = --extra ]; do shift 2; done\nexec {sys.executable} "$@"\n')
os.chmod(os.path.join(here, "uv"), 0o755)
with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
address = f"http://127.0.0.1:{port}"
settings = {"max_lora_adapters": 2, "max_lora_rank": 32, "train_micro_batch_size": 1, "sample_max_num_sequences": 32}
server = subprocess.Popen(
    [sys.executable, "-m", "tx.tinker.api", "--base-model", spec["peer_model"], "--host", "127.0.0.1", "--port", str(port),
     "--checkpoints-base", here, "--database-url", f"sqlite:///{here}/tinker.db", "--backend-config", json.dumps(settings)],
    env=os.environ | {"PATH": here + ":" + os.environ["PATH"], "JAX_PLATFORMS": "cpu", "HF_HUB_OFFLINE": "1"},
    stdout=sys.stderr)
atexit.register(server.terminate)
wait(address, server)
serve(Loop(address, spec["peer_model"]).run)
