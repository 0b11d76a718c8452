"""A tiny model, made from scratch, learns to write digits. The reward is a function of this file."""

from pathlib import Path

import trinity_go as tg

QUICKSTART = Path(__file__).parents[1] / "quickstart"  # a configuration of a model without weights, and sums


def digits(completion):
    return sum(c in "0123456789" for c in completion) / max(len(completion), 1)


if __name__ == "__main__":
    run = tg.GRPO(
        model=QUICKSTART / "model",
        dataset=QUICKSTART / "data" / "train.jsonl",
        reward=digits,
        prompt="question",
        answer="answer",
        steps=40,
        batch_size=16,
        repeat_times=8,
        lr=1e-3,
        kl_loss_fn="none",
        max_prompt_tokens=32,
        max_response_tokens=16,
        config={"model": {"init": {"style": "fan_in"}}},
    ).train()
    name, curve = run.curve()
    print(f"{name}: {curve[0][1]:.2f} at first, {curve[-1][1]:.2f} after {len(curve)} steps")
    print("2+3=?", run.chat("2+3=?", max_tokens=16))
