"""python -m trinity_worker.sglang_server FLAGS: sglang.launch_server, whose key comes by environment.

SGLang takes its key as an argument alone, which everyone on the machine can read, and logs it.
"""

import logging
import os
import runpy
import sys


def hide(key: str) -> None:
    """Keeps the key out of all that this process logs."""
    make = logging.getLogRecordFactory()

    def hidden(*args: object, **fields: object) -> logging.LogRecord:
        record = make(*args, **fields)
        record.msg, record.args = record.getMessage().replace(key, "***"), None
        return record

    logging.setLogRecordFactory(hidden)


def main() -> None:
    key = os.environ.pop("SGLANG_API_KEY", "")
    if not key:
        sys.exit("set SGLANG_API_KEY to the key that requests must bear")
    hide(key)
    sys.argv += ["--api-key", key]
    runpy.run_module("sglang.launch_server", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
