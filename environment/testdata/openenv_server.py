"""An OpenEnv server whose environment answers twice; TestOpenEnvWithItsServer starts it with a port."""
import sys
from typing import Optional
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
import uvicorn

class Guess(Action):
    message: str

class Heard(Observation):
    text: str = ""

class Echo(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True
    def __init__(self):
        super().__init__()
        self.steps = 0
        self.seed = 0
    def reset(self, seed: Optional[int] = None, episode_id: Optional[str] = None, **kwargs) -> Heard:
        self.steps, self.seed = 0, seed
        return Heard(text=f"seed {seed}")
    def step(self, action: Guess, **kwargs) -> Heard:
        self.steps += 1
        if action.message == "raise":
            raise RuntimeError("broken")
        return Heard(text=f"heard {action.message}", reward=self.steps / 2, done=self.steps == 2)
    @property
    def state(self) -> State:
        return State(episode_id="x", step_count=self.steps)

uvicorn.run(create_app(Echo, Guess, Heard, env_name="echo"), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
