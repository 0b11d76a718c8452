"""The PyTorch side of Trinity-Go. It holds models, sharded over ranks, and computes what the driver asks for over HTTP.

It has no loop, no loss and no algorithm: the driver sends the derivatives of its loss by each stream. The wire is
described in docs/develop/worker.md.
"""

PROTOCOL = 4


def mismatch(driver: str) -> str:
    """Returns an error if the driver, which gives its protocol by environment, speaks another one; else ""."""
    if driver in ("", str(PROTOCOL)):
        return ""
    return (
        f"this trinity_worker speaks protocol {PROTOCOL}, the driver {driver}: "
        "install the wheel that the driver's command trinity worker writes"
    )
