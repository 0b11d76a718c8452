"""A policy loss of your own: REINFORCE, as numbers and their derivatives, without PyTorch. A function whose module imports
torch gets tensors, and returns the loss alone."""

from pathlib import Path

import trinity_go as tg

QUICKSTART = Path(__file__).parents[1] / "quickstart"


@tg.reward
def digits(completion):
    return sum(c in "0123456789" for c in completion) / max(len(completion), 1)


@tg.loss
def reinforce(logprob, advantages, action_mask):
    """Return the loss of an optimizer step, its derivatives by each log-probability, and metrics."""
    count = sum(map(sum, action_mask))
    weights = [
        [-advantage * mask / count for advantage, mask in zip(of, masks)] for of, masks in zip(advantages, action_mask)
    ]
    loss = sum(w * lp for row, of in zip(weights, logprob) for w, lp in zip(row, of))
    return loss, {"logprob": weights}, {"trained_tokens": count}


if __name__ == "__main__":
    run = tg.GRPO(
        model=QUICKSTART / "model",
        dataset=[{"question": f"{a}+{b}=?"} for a in range(10) for b in range(10)],
        reward=digits,
        loss=reinforce,
        prompt="question",
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
    print("metrics of the loss:", [key for key in run.steps()[-1] if "trained_tokens" in key])
