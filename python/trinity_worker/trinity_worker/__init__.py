"""The PyTorch side of Trinity-Go. It holds models, sharded over ranks, and computes what the driver asks for over HTTP.

It has no loop, no loss and no algorithm: the driver sends the derivatives of its loss by each stream. The wire is
described in docs/develop/worker.md.
"""

PROTOCOL = 1
