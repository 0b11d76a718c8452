"""A reward for trinity: a configuration names the function with this file, default_reward_fn_type: reward.py:reward"""


def reward(completion, **row):
    """Return a number, a dict of named parts, or None for a reply that cannot be scored. It may be async.
    row has the columns of the row, and messages, prompt and truth unless columns have these names."""
    return {"right": float(completion.strip() == str(row.get("truth", "")).strip())}
