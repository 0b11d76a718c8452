import asyncio
import inspect
import itertools

from verifiers.v1.configs.agent import AgentConfig
from verifiers.v1.graph import MessageNode
from verifiers.v1.state import state_cls
from verifiers.v1.trace import AgentInfo, Trace, TraceTask
from verifiers.v1.types import AssistantMessage, SystemMessage, UserMessage
from verifiers.v1.utils.loaders import load_taskset, taskset_config_type

made = {}


def taskset(name, config):
    """Return a taskset, which is made once."""
    key = repr((name, sorted(config.items())))
    if key not in made:
        made[key] = load_taskset(taskset_config_type(name).model_validate({**config, "id": name}))
    return made[key]


def alone(task):
    """Raise an error unless one reply to one message answers the task, and the reply alone is scored."""
    if type(task).NEEDS_CONTAINER or type(task).toolsets(task.config):
        raise ValueError(f"{type(task).__name__} needs tools or a container, which one reply does not have")
    signals = [*task.hooks("reward"), *(judge.score for judge in task.plugged_judges())]
    for signal in signals:
        runtime = inspect.signature(signal).parameters.get("runtime")
        if runtime is not None and runtime.default is inspect.Parameter.empty:
            raise ValueError(f"the reward {signal.__name__} needs a runtime, which one reply does not have")
    if not signals:
        raise ValueError(f"{type(task).__name__} has no reward")


def text(content):
    return content if isinstance(content, str) else "".join(part.text for part in content)


def rows(name, config, start, count):
    source = taskset(name, config)
    if type(source).toolsets(source.config):
        raise ValueError(f"{name} has tools, which one reply does not have")
    answer = []
    for task in itertools.islice(source, start, start + count):
        alone(task)
        system, prompt = task.data.system_prompt, task.data.prompt
        if isinstance(prompt, list):
            if prompt and prompt[0].role == "system":
                system, prompt = system or text(prompt[0].content), prompt[1:]
            if [message.role for message in prompt] != ["user"]:
                raise ValueError(f"task {task.data.idx} begins with other messages than one of the user")
            prompt = text(prompt[0].content)
        if not prompt:
            raise ValueError(f"task {task.data.idx} has no prompt")
        row = {"question": prompt, "taskset": name, "config": config, "data": task.data.model_dump(mode="json")}
        if system:
            row["system_prompt"] = system
        answer.append(row)
    return {"rows": answer}


def score(name, config, data, system, question, reply, reasoning):
    source = taskset(name, config)
    kind = type(source).task_type()
    task = kind(kind.data_type().model_validate(data), source.config.task)
    alone(task)
    messages = [SystemMessage(content=system)] if system else []
    messages += [UserMessage(content=question), AssistantMessage(content=reply, reasoning_content=reasoning or None)]
    trace = Trace(
        task=TraceTask(type=kind.__name__, data=task.data, key=task.key, hash=task.hash),
        agent=AgentInfo(config=AgentConfig()),
        state=state_cls(kind)(),
        is_completed=True,
        ok=True,
    )
    for i, message in enumerate(messages):
        trace.nodes.append(MessageNode(parent=i - 1 if i else None, message=message, sampled=i == len(messages) - 1))
    asyncio.run(task.score(trace))
    missing = [reward for reward, value in trace.rewards.items() if value is None]
    if missing or not trace.rewards:
        raise ValueError(f"{kind.__name__} gives no reward {' '.join(missing)}")
    return {
        "parts": {reward: value.value for reward, value in trace.rewards.items()},
        "metrics": {metric: value for metric, value in trace.metrics.items() if value is not None},
    }


serve({"rows": rows, "score": score})
