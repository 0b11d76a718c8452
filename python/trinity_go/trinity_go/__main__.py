"""`python -m trinity_go run …` is `trinity run …`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from ._binary import NotInstalled, binary


def main() -> int:
    """Start the program in place of this process, or return its exit code where a process cannot be replaced."""
    try:
        path = binary()
    except NotInstalled as missing:
        print(f"trinity-go: {missing}", file=sys.stderr)
        return 1
    first = shutil.which("trinity")
    if first and not os.path.samefile(first, path):
        print(f"trinity-go: the command trinity is {first}, which is another program; this is {path}", file=sys.stderr)
    sys.stdout.flush()
    if os.name != "nt":
        os.execv(path, [path, *sys.argv[1:]])
    with subprocess.Popen([path, *sys.argv[1:]]) as child:
        while True:
            try:
                return child.wait()
            except KeyboardInterrupt:  # the program has it too, and ends in order
                continue


if __name__ == "__main__":
    sys.exit(main())
