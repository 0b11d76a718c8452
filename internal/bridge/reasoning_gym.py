import reasoning_gym

made = {}


def dataset(name, config):
    """Return a dataset, which is made once."""
    key = repr((name, sorted(config.items())))
    if key not in made:
        if name not in reasoning_gym.factory.DATASETS:
            raise ValueError(f"reasoning_gym has no dataset {name}")
        made[key] = reasoning_gym.create_dataset(name, **config)
    return made[key]


def ask(dataset_name, config, index):
    source = dataset(dataset_name, config)
    if index >= len(source):
        raise ValueError(f"{dataset_name} has {len(source)} entries, and none with index {index}: raise config.size")
    return {"question": source[index]["question"]}


def score(dataset_name, config, index, answer):
    # The entry is made again: in JSON its metadata would lose the types that some scorers compare.
    source = dataset(dataset_name, config)
    return {"score": float(source.score_answer(answer, source[index]))}


def rows(name, config, start, count):
    config = {"seed": 0, **config}  # without a seed other processes ask other questions
    source = dataset(name, config)
    return {
        "rows": [
            {"question": entry["question"], "answer": entry["answer"], "dataset": name, "config": config, "index": start + i}
            for i, entry in enumerate(source[index] for index in range(start, min(start + count, len(source))))
        ]
    }


serve({"ask": ask, "score": score, "rows": rows})
