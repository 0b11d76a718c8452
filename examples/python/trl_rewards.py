"""Reward functions in the form of TRL, which get the replies of a group together. Those of trl.rewards run as they are."""

from pathlib import Path

import trinity_go as tg

QUICKSTART = Path(__file__).parents[1] / "quickstart"


def digits(completions, **kwargs):
    texts = [completion[0]["content"] for completion in completions]
    return [sum(c in "0123456789" for c in text) / max(len(text), 1) for text in texts]


def short(completion_ids, completions, log_metric, **kwargs):
    """Take a bit off the reward of replies that are longer than the shortest one."""
    lengths = [len(ids) for ids in completion_ids]
    log_metric("longest", max(lengths))
    return [-0.01 * (length - min(lengths)) for length in lengths]


if __name__ == "__main__":
    run = tg.RLOO(
        model=QUICKSTART / "model",
        dataset=[{"question": f"{a}+{b}=?", "answer": str(a + b)} for a in range(10) for b in range(10)],
        reward=[digits, short],
        prompt="question",
        answer="answer",
        steps=30,
        batch_size=16,
        repeat_times=8,
        lr=1e-3,
        max_prompt_tokens=32,
        max_response_tokens=16,
        config={"model": {"init": {"style": "fan_in"}}},
    ).train()
    for part in ("digits", "short"):
        values = [row[f"rollout/{part}/mean"] for row in run.steps()]
        print(f"{part}: {values[0]:.2f} at first, {values[-1]:.2f} after {len(values)} steps")
