"""The worker, whose rank 1 is on a machine with a directory of its own in the place of the run's."""

import os
import runpy
import socket

from trinity_worker import check


def there(path: str, mode: str):
    return open(path + ".gpu2", mode)


if os.environ["RANK"] == "1":
    check.open, socket.gethostname = there, lambda: "gpu2"
runpy.run_module("trinity_worker", run_name="__main__", alter_sys=True)
