"""The bases of Trinity-RFT's workflows that go step by step."""

from __future__ import annotations

from typing import Any

from .experience import Experience
from .models import ModelWrapper
from .workflows import Task, Workflow


class _Steps(Workflow):
    """Takes steps until one says that it was the last, or there are max_step_num."""

    def __init__(
        self,
        *,
        task: Task,
        model: ModelWrapper,
        auxiliary_models: list[ModelWrapper] | None = None,
        use_openai_client: bool = True,
    ) -> None:
        super().__init__(task=task, model=model, auxiliary_models=auxiliary_models)
        self._has_client = use_openai_client

    @property
    def client(self) -> Any:
        """The client of OpenAI, also of asynchronous classes, as there. It is made when it is wanted."""
        if "_client" not in self.__dict__:
            self._client: Any = self.model.get_openai_client() if self._has_client else None
        return self._client

    @client.setter
    def client(self, client: Any) -> None:
        self._client = client

    @property
    def max_step_num(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} has no max_step_num")

    def step(self, step_num: int) -> bool:
        raise NotImplementedError(f"{type(self).__name__} has no step")

    async def step_async(self, step_num: int) -> bool:
        raise NotImplementedError(f"{type(self).__name__} has no step_async")

    def _of_step(self, step_num: int) -> list[Experience]:
        """Return what the model has said in a step."""
        out = self.model.extract_experience_from_history()
        for e in out:
            e.eid.step = step_num
        return out


class StepWiseRewardWorkflow(_Steps):
    """Each step has a reward of its own."""

    def reward(self, exps: list[Experience], step_num: int) -> float:
        raise NotImplementedError(f"{type(self).__name__} has no reward")

    def run(self) -> list[Experience]:
        out: list[Experience] = []
        for number in range(self.max_step_num):
            goes_on = self.step(step_num=number)
            own = self.model.extract_experience_from_history()
            _give(own, self.reward(own, step_num=number), number)
            out += own
            if not goes_on:
                break
        return out


class AsyncStepWiseRewardWorkflow(StepWiseRewardWorkflow):
    is_async = True

    async def reward_async(self, exps: list[Experience], step_num: int) -> float:
        raise NotImplementedError(f"{type(self).__name__} has no reward_async")

    async def run_async(self) -> list[Experience]:
        out: list[Experience] = []
        for number in range(self.max_step_num):
            goes_on = await self.step_async(step_num=number)
            own = self.model.extract_experience_from_history()
            _give(own, await self.reward_async(own, step_num=number), number)
            out += own
            if not goes_on:
                break
        return out


def _give(experiences: list[Experience], reward: float, number: int) -> None:
    for e in experiences:
        e.reward, e.eid.step = reward, number


class RewardPropagationWorkflow(_Steps):
    """All steps have the reward of the whole."""

    def reward(self, exps: list[Experience]) -> float:
        raise NotImplementedError(f"{type(self).__name__} has no reward")

    def run(self) -> list[Experience]:
        out: list[Experience] = []
        taken = 0
        for number in range(self.max_step_num):
            goes_on = self.step(step_num=number)
            out += self._of_step(number)
            taken = number + 1
            if not goes_on:
                break
        return _share(out, self.reward(out), taken)


class AsyncRewardPropagationWorkflow(RewardPropagationWorkflow):
    is_async = True

    async def reward_async(self, exps: list[Experience]) -> float:
        raise NotImplementedError(f"{type(self).__name__} has no reward_async")

    async def run_async(self) -> list[Experience]:
        out: list[Experience] = []
        taken = 0
        for number in range(self.max_step_num):
            goes_on = await self.step_async(step_num=number)
            out += self._of_step(number)
            taken = number + 1
            if not goes_on:
                break
        return _share(out, await self.reward_async(out), taken)


def _share(experiences: list[Experience], reward: float, taken: int) -> list[Experience]:
    for e in experiences:
        e.reward = reward
        e.metrics = {**(e.metrics or {}), "actual_env_steps": taken}
    return experiences
