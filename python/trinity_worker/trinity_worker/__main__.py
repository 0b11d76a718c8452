"""python -m trinity_worker, or torchrun -m trinity_worker for several ranks. The token comes by environment."""

import argparse
import datetime
import os
import sys
import traceback

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

from . import mismatch
from .group import Group
from .layout import Layout
from .server import serve


def main() -> None:
    parser = argparse.ArgumentParser(prog="trinity_worker")
    parser.add_argument("--host", default="127.0.0.1", help="address at which rank 0 listens")
    parser.add_argument("--port", type=int, required=True, help="of rank 0")
    args = parser.parse_args()
    if error := mismatch(os.environ.get("TRINITY_WORKER_PROTOCOL", "")):
        sys.exit(error)
    token = os.environ.pop("TRINITY_WORKER_TOKEN", "")
    if not token:
        sys.exit("set TRINITY_WORKER_TOKEN to the token that requests must bear")
    lease = float(os.environ.get("TRINITY_WORKER_LEASE", "60"))
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    # Ranks wait in a broadcast while the driver samples: that group must not time out.
    backend, patience = "cpu:gloo,cuda:nccl" if gpu else "gloo", datetime.timedelta(days=30)
    if dist.is_torchelastic_launched():
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=HashStore(), rank=0, world_size=1)
    control = dist.new_group(backend="gloo", timeout=patience)
    group = Group(Layout(device, control))
    if group.rank == 0:
        return serve(group, args.host, args.port, token, lease)
    try:
        group.follow()
    finally:  # rank 0 may wait in a collective: the end of this process ends it
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    main()
