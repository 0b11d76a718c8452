"""An agent: a function asks the model as often as it likes, here twice, and returns the reward of all that it said."""

from pathlib import Path

import trinity_go as tg

QUICKSTART = Path(__file__).parents[1] / "quickstart"


def digits(text: str) -> float:
    return sum(c in "0123456789" for c in text) / max(len(text), 1)


@tg.workflow
async def agent(task: tg.Task, model: tg.Model) -> dict[str, float]:
    first = await model.chat(task.row["question"])
    second = await model.chat([{"role": "user", "content": f"{task.row['question']} Once more."}])
    return {"first": digits(first), "second": digits(second)}  # the reward is the sum of its parts


if __name__ == "__main__":
    run = tg.GRPO(
        model=QUICKSTART / "model",
        dataset=[{"question": f"{a}+{b}=?"} for a in range(10) for b in range(10)],
        workflow=agent,
        prompt="question",
        steps=30,
        batch_size=8,
        repeat_times=8,
        lr=1e-3,
        kl_loss_fn="none",
        max_prompt_tokens=64,
        max_response_tokens=16,
        config={"model": {"init": {"style": "fan_in"}}},
    ).train()
    for part in ("first", "second"):
        values = [row[f"rollout/{part}/mean"] for row in run.steps()]
        print(f"{part}: {values[0]:.2f} at first, {values[-1]:.2f} after {len(values)} steps")
