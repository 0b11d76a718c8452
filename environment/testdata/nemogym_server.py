"""Serve a resources server of the package nemo-gym at a free port, which it prints."""
import importlib
import socket
import sys

import uvicorn
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.server_utils import ServerClient
from omegaconf import OmegaConf

kind = getattr(importlib.import_module(f"resources_servers.{sys.argv[1]}.app"), sys.argv[2])
listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]
here = {"host": "127.0.0.1", "port": port}
server = kind(
    config=kind.model_fields["config"].annotation(name=sys.argv[1], entrypoint="app.py", **here),
    server_client=ServerClient(head_server_config=BaseServerConfig(**here), global_config_dict=OmegaConf.create({})),
)
app = server.setup_webserver()
print(port, flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
