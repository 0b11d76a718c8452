"""Reinforcement fine-tuning: the model learns one-digit sums from a grader alone. The README has the commands."""

from job import ask, train

GRADER = {
    "type": "string_check",
    "name": "named",
    "operation": "like",
    "input": "{{ sample.output_text }}",
    "reference": "{{ item.answer }}",
}


def task(a, b):
    return {"messages": [{"role": "user", "content": f"What is {a} + {b}? Answer with the number alone."}], "answer": str(a + b)}


rows = [task(a, b) for a in range(1, 10) for b in range(1, 10)]
held_out = rows[::9]
model = train(
    [row for row in rows if row not in held_out],
    held_out,
    {
        "type": "reinforcement",
        "reinforcement": {
            "grader": GRADER,
            "hyperparameters": {"batch_size": 8, "n_epochs": 2, "learning_rate_multiplier": 3, "max_completion_tokens": 8},
        },
    },
    "sums",
)
ask(model, "What is 3 + 4? Answer with the number alone.", 8)
