"""An environment for trinity: the policy reads what reset returns, replies, reads what step returns, and so on until the episode is done.
Change it, and play it by hand with `python3 env.py`. `trinity init env.py` writes a configuration that trains on it."""

import re


class Corridor:
    """The policy walks to an exit."""

    # An episode to learn from is a row: its columns are the arguments of reset. `trinity init` keeps a fifth of the rows for evaluations.
    # Without rows an episode has a seed alone; `trinity init env.py --data FILE` takes the rows of a file.
    rows = [{"exit": steps * side, "colour": colour} for steps in (1, 2, 3) for side in (-1, 1) for colour in ("red", "green", "blue", "white")]

    def reset(self, exit, colour, seed=0):
        """Begin an episode. Return what the policy reads first: a text, or a list of messages with role and content.
        The rollouts of a group get the same row and the same seed; the module random is seeded with it, too."""
        self.exit, self.replies = exit, 0
        return f"Which way is the {colour} exit? It is {self.says()}. Answer: left or right?"

    def step(self, text):
        """Take a reply of the policy. Return what it reads next, the reward of this reply, and whether the episode is done.
        The reward of an episode is the sum. None is no reward; an exception is a broken environment, and never a reward of 0."""
        self.replies += 1
        found = re.search(r"\b(left|right)\b", text.lower())
        if found:
            self.exit += {"left": 1, "right": -1}[found[1]]
        if self.exit == 0:
            return "You are out.", 1, True
        return f"Now it is {self.says()}.", 0, self.replies == 4

    def says(self):
        return f"{abs(self.exit)} steps to the {'left' if self.exit < 0 else 'right'}"


if __name__ == "__main__":
    env, done = Corridor(), False
    print(env.reset(**Corridor.rows[0]))
    while not done:
        text, reward, done = env.step(input("> "))
        print(text, "reward", reward)
