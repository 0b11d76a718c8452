"""Ranks of a server, for the tests. A rank does what the lines of its input say, and answers each with a line."""

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
            hashlib.sha256(t.contiguous().view(-1).view(torch.uint8).cpu().numpy()).hexdigest(),
        ]
        for name, t in tensors
    }


def join(given: dict, rank: int, announces: bool) -> channel.Receiver:
    """Join a worker. A server that tells nobody before it joins is one such as SGLang."""
    announce = channel.arrive
    channel.arrive = announce if announces else lambda *_: None  # type: ignore[assignment]
    try:
        device = torch.device("cuda", 0) if given["transport"] == channel.IPC else torch.device("cpu")
        return channel.Receiver(channel.Channel(**given), rank, device)
    finally:
        channel.arrive = announce


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    receiver = None
    print("{}", flush=True)
    for line in sys.stdin:
        verb, *arguments = json.loads(line)
        answer = {}
        if verb == "join":
            receiver = join(*arguments)
        elif verb == "bucket":
            answer = told(receiver.receive(*arguments))
        else:
            receiver.close()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
