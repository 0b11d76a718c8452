"""A taskset of verifiers 0.4: sums, with two rewards and a metric."""
import verifiers.v1 as vf

__all__ = ["Sums"]


class SumData(vf.TaskData):
    answer: str


class SumTask(vf.Task[SumData]):
    @vf.reward(weight=1.0)
    async def right(self, trace) -> float:
        return float(trace.last_reply == self.data.answer)

    @vf.reward(weight=0.5)
    async def short(self, trace) -> float:
        return float(len(trace.transcript) < 60)

    @vf.metric
    async def length(self, trace) -> float:
        return len(trace.last_reply)


class SumsConfig(vf.TasksetConfig):
    first: int = 40


class Sums(vf.Taskset[SumTask, SumsConfig]):
    def load(self):
        for i in range(3):
            data = SumData(prompt=f"{self.config.first} + {i}?", system_prompt="Be brief.", answer=str(self.config.first + i))
            yield SumTask(data, self.config.task)
