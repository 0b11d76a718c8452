"""DPO: the model learns to answer in one short sentence. The README has the commands."""

from job import ask, train

THINGS = ["a door", "the sea", "bread", "a clock", "snow", "a bridge", "paper", "a garden", "iron", "a letter", "rain", "a lamp"]


def pair(thing):
    long = f"That is a very good question! There is a lot that one could say about {thing}, and I will try to tell you all of it, step by step."
    return {
        "input": {"messages": [{"role": "user", "content": f"What is {thing} for?"}]},
        "preferred_output": [{"role": "assistant", "content": f"People use {thing} every day."}],
        "non_preferred_output": [{"role": "assistant", "content": long}],
    }


model = train(
    [pair(thing) for thing in THINGS[:10]],
    [pair(thing) for thing in THINGS[10:]],
    {"type": "dpo", "dpo": {"hyperparameters": {"beta": 0.1, "n_epochs": 2, "batch_size": 2, "learning_rate_multiplier": 5}}},
    "short",
)
ask(model, f"What is {THINGS[11]} for?", 32)
