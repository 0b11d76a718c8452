"""Trinity-RFT's experiences and stores, in one process and without Ray: experiences a second."""
import asyncio
import os
import time

os.environ["TRINITY_LOG_LEVEL"] = os.environ["RAY_DEDUP_LOGS"] = "ERROR"

import torch
from trinity.common.config import StorageConfig
from trinity.common.experience import EID, Experience
from turns import serve, spec

BATCH, LEAST = 64, 1.0


def experiences(step):
    return [
        Experience(
            eid=EID(batch=step, task=1, run=i), tokens=torch.randint(0, 49152, (512,), dtype=torch.int32), prompt_length=128, logprobs=-torch.rand(384),
            advantages=torch.full((384,), 0.5), reward=1.0, prompt_text="q" * 400, response_text="a" * 1200, info={"model_version": 0})
        for i in range(BATCH)
    ]


def encode(made):
    async def batch():
        Experience.serialize_many(made)

    return batch


def decode(made):
    data = Experience.serialize_many(made)

    async def batch():
        Experience.deserialize_many(data)

    return batch


def queue(made):
    from trinity.buffer.storage.queue import QueueStorage

    storage = QueueStorage(StorageConfig(name="queue", storage_type="queue", path=spec["dir"] + "/queue.jsonl", wrap_in_ray=False, schema_type="experience"))

    async def batch():
        await storage.put_batch(Experience.serialize_many(made))
        assert len(Experience.deserialize_many(await storage.get_batch(BATCH, 10))) == BATCH

    return batch


def sqlite(made):
    from trinity.buffer.storage.sql import SQLExperienceStorage

    storage = SQLExperienceStorage(
        StorageConfig(name="sql", storage_type="sql", path=f"sqlite:///{spec['dir']}/x.db", wrap_in_ray=False, schema_type="experience", batch_size=BATCH))

    async def batch():
        await storage.write(made)
        assert len(await storage.read(BATCH)) == BATCH

    return batch


os.makedirs(spec["dir"], exist_ok=True)
loop = asyncio.new_event_loop()
parts = {"store_encode": encode, "store_decode": decode, "store_memory": queue, "store_durable": queue, "store_sqlite": sqlite}
batch = parts[spec["workload"]](experiences(0))


def run(number):
    took, begin = [], time.perf_counter()
    while time.perf_counter() - begin < LEAST:
        start = time.perf_counter()
        loop.run_until_complete(batch())
        took.append(time.perf_counter() - start)
    rate = BATCH * len(took) / (time.perf_counter() - begin)
    return {"value": rate, "p99_ms": 1e3 * sorted(took)[len(took) * 99 // 100]}


serve(run)
