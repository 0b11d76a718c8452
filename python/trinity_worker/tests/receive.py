"""A rank of a server, for the tests: receives buckets until its input ends, and writes the digest of each tensor.

With "quiet" it joins as a server does that tells nobody before, such as SGLang.
"""

import hashlib
import json
import sys
from collections.abc import Iterable

import torch
import torch.distributed as dist

from trinity_worker import channel


def told(tensors: Iterable[tuple[str, torch.Tensor]]) -> dict:
    """Type, shape and digest of tensors."""
    return {
        name: [
            str(t.dtype),
            list(t.shape),
            hashlib.sha256(t.contiguous().view(-1).view(torch.uint8).numpy()).hexdigest(),
        ]
        for name, t in tensors
    }


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    c, rank = channel.Channel(**json.loads(sys.argv[1])), int(sys.argv[2])
    if "quiet" in sys.argv:
        channel.arrive = lambda *_: None  # type: ignore[assignment]
    receiver = channel.Receiver(c, rank, torch.device("cpu"))
    print("{}", flush=True)
    for line in sys.stdin:
        got = receiver.receive(json.loads(line), {})
        print(json.dumps(told(got)), flush=True)
    receiver.close()


if __name__ == "__main__":
    main()
