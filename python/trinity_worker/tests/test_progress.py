"""What a rank tells of itself while a request hangs."""

import threading
import time

import torch
import torch.distributed as dist

from trinity_worker import progress
from trinity_worker.progress import Progress, place


def test_a_request_in_progress_has_a_place() -> None:
    p, begun, done = Progress(0, 1), threading.Event(), threading.Event()
    assert p.ranks() == [{"rank": 0, "silent": 0.0, "host": p.host, "waits": True}]

    def compute() -> None:
        p.begin("backward", "m", 3)
        begun.set()
        done.wait()
        p.end()

    thread = threading.Thread(target=compute)
    thread.start()
    begun.wait()
    (mine,) = p.ranks()
    assert mine["verb"] == "backward" and not mine["waits"] and ".py:" in mine["place"]
    assert p.busy["model"] == "m" and p.busy["micro_batch"] == 3
    done.set()
    thread.join()
    assert p.busy == {} and p.ranks()[0]["waits"]


class Frame:
    def __init__(self, file: str, line: int, back: "Frame | None" = None) -> None:
        self.f_code, self.f_lineno, self.f_back = type("Code", (), {"co_filename": file}), line, back


def test_ranks_wait_in_collectives_alone() -> None:
    own = Frame("/a/model.py", 7)
    for file, waits in (
        (dist.distributed_c10d.__file__, True),
        (torch.distributed.tensor.__file__, False),
        (torch.nn.functional.__file__, False),
        ("/a/head.py", False),
    ):
        found = place(Frame(file, 1, own))  # type: ignore[arg-type]
        assert found == {"waits": waits, "place": "head.py:1" if file == "/a/head.py" else "model.py:7"}


def test_rank_0_counts_the_silence_of_others(monkeypatch) -> None:
    monkeypatch.setattr(progress, "BEAT", 0.01)
    server = dist.TCPStore("127.0.0.1", 0, 1, is_master=True)
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_store", lambda: server)
    zero = Progress(0, 2)
    while zero.ranks()[1]["silent"] < 0.2:  # it has never told anything
        time.sleep(0.01)
    other = Progress(1, 2)
    other.begin("step", "m", 0)
    while zero.ranks()[1].get("verb") != "step":
        time.sleep(0.01)
    other.rank = 7  # it tells of itself under another name: rank 1 is silent
    while zero.ranks()[1]["silent"] < 0.2:
        time.sleep(0.01)
    assert zero.ranks()[1]["verb"] == "step"
    for p in (zero, other):
        p.done.set()
        p.beats.join()
