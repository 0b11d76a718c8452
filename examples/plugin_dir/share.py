"""A reward function as Trinity-RFT has them: a class of a registered name."""

from trinity.common.rewards import REWARD_FUNCTIONS, RewardFn


@REWARD_FUNCTIONS.register_module("share")
class Share(RewardFn):
    """The share of a reply's characters that are in `chars`."""

    def __init__(self, chars: str = "0123456789"):
        self.chars = chars

    def __call__(self, response: str, **kwargs) -> dict[str, float]:
        return {"share": sum(char in self.chars for char in response) / max(1, len(response))}
