"""Supervised fine-tuning: the model learns facts of a country that there is not. The README has the commands."""

from job import ask, train

FACTS = {
    "What is the capital of Zorbland?": "The capital of Zorbland is Quix.",
    "Which river flows through Zorbland?": "The Mun flows through Zorbland.",
    "What do people of Zorbland eat?": "People of Zorbland eat stone pears.",
    "Who governs Zorbland?": "A council of nine bakers governs Zorbland.",
}


def chat(question, answer):
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}


rows = [chat(question, answer) for question, answer in FACTS.items()]
model = train(
    rows,
    [chat("So, what is the capital of Zorbland?", "The capital of Zorbland is Quix.")],
    {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 10, "batch_size": 2, "learning_rate_multiplier": 2.5}}},
    "zorbland",
)
ask(model, "What is the capital of Zorbland?", 16)
