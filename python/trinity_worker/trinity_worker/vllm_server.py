"""python -m trinity_worker.vllm_server FLAGS: vLLM's API server, started as its version wants it.

vLLM 0.32 has moved the module of the server, and warns of the old place.
"""

import importlib.util
import os
import sys
from pathlib import Path

MODULES = ("vllm.entrypoints.launchers.api_server.entry", "vllm.entrypoints.openai.api_server")


def find() -> str:
    """Returns the first of the modules that this vLLM has. It imports none, which would take seconds."""
    spec = importlib.util.find_spec("vllm")
    for root in (spec.submodule_search_locations or []) if spec else []:
        for name in MODULES:
            if Path(root, *name.split(".")[1:]).with_suffix(".py").is_file():
                return name
    sys.exit("vLLM has no API server at " + " or ".join(MODULES) + ": install another version")


def main() -> None:
    # The server is this process, so that signals and the status of its end are its own.
    os.execv(sys.executable, [sys.executable, "-m", find(), *sys.argv[1:]])


if __name__ == "__main__":
    main()
