"""Experiences as Trinity-RFT's classes make and read them, and what becomes of them in a run."""

from __future__ import annotations

import array
import logging
import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..wire import Told, metric_name, number_of, plain
from .numbers import ByToken, Numbers, list_of, load

_log = logging.getLogger("trinity_go.experiences")


@dataclass
class EID:
    """Names an experience: the step of a rollout (run) of a task in a batch."""

    batch: int | str = ""
    task: int | str = ""
    run: int = 0
    step: int = 0
    suffix: str = field(default_factory=lambda: uuid.uuid4().hex[:6])

    @property
    def tid(self) -> str:
        return f"{self.batch}/{self.task}"

    @property
    def rid(self) -> str:
        return f"{self.tid}/{self.run}"

    @property
    def sid(self) -> str:
        return f"{self.tid}/{self.step}"

    @property
    def uid(self) -> str:
        return f"{self.rid}/{self.step}/{self.suffix}"

    def __str__(self) -> str:
        return self.uid

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class CustomField:
    """A value of info that becomes a stream of a loss."""

    source_field: str
    destination_field: str
    data_type: Any


@dataclass(frozen=True)
class Recorded:
    """What the gateway has recorded: the sequence that ends with a call of a rollout."""

    turn: int  # number of the call
    endpoint: int  # place of the rollout's endpoint in those of the model
    ids: array.array[int]
    prompt_length: int  # tokens before the first reply of the sequence


class Experience:
    """A sequence of tokens with what a workflow says of it. Attributes by the token are of the response."""

    tokens = ByToken("int32")
    logprobs = ByToken("float32")
    action_mask = ByToken("bool")
    token_level_reward = ByToken("float32")
    advantages = ByToken("float32")
    returns = ByToken("float32")
    teacher_logprobs = ByToken("float32")
    chosen = ByToken("int32")
    rejected = ByToken("int32")

    def __init__(
        self,
        *,
        eid: EID | Mapping[str, Any] | None = None,
        tokens: Any,
        logprobs: Any = None,
        reward: float | None = None,
        token_level_reward: Any = None,
        advantages: Any = None,
        returns: Any = None,
        truncate_status: str | None = None,
        info: dict[str, Any] | None = None,
        metrics: dict[str, float] | None = None,
        prompt_length: int = 1,
        response_text: str | None = None,
        prompt_text: str | None = None,
        action_mask: Any = None,
        messages: list[dict[str, Any]] | None = None,
        tools: list[dict[str, Any]] | None = None,
        chosen: Any = None,
        rejected: Any = None,
        chosen_messages: list[dict[str, Any]] | None = None,
        rejected_messages: list[dict[str, Any]] | None = None,
        multi_modal_inputs: dict[str, Any] | None = None,
        teacher_logprobs: Any = None,
        routed_experts: Any = None,
        custom_fields: list[CustomField] | None = None,
    ) -> None:
        self.experience_type = "single_turn"
        if action_mask is not None:
            self.experience_type = "multi_turn"
        elif chosen is not None and rejected is not None:
            self.experience_type, prompt_length = "dpo", len(tokens)
        elif truncate_status == "prompt_truncated":
            action_mask = [False] * len(logprobs)
        elif not 0 < prompt_length < len(tokens):
            raise ValueError(
                f"prompt_length is {prompt_length} and there are {len(tokens)} tokens: a prompt and a response have "
                "one token or more"
            )
        else:
            action_mask = [True] * (len(tokens) - prompt_length)
        self.eid = eid if isinstance(eid, EID) else EID(**(eid or {}))
        self.tokens, self.prompt_length, self.logprobs, self.action_mask = tokens, prompt_length, logprobs, action_mask
        self.reward, self.token_level_reward = reward, token_level_reward
        self.advantages, self.returns, self.teacher_logprobs = advantages, returns, teacher_logprobs
        self.truncate_status, self.info, self.metrics = truncate_status, info or {}, metrics or {}
        self.response_text, self.prompt_text, self.messages, self.tools = response_text, prompt_text, messages, tools
        self.chosen, self.rejected = chosen, rejected
        self.chosen_messages, self.rejected_messages = chosen_messages, rejected_messages
        self.multi_modal_inputs, self.routed_experts = multi_modal_inputs, routed_experts
        self.custom_fields = custom_fields or []
        self.recorded: Recorded | None = None

    @property
    def turn(self) -> int | None:
        """The number of the recorded call with which the sequence ends; None if it is not of this rollout."""
        return self.recorded.turn if self.recorded else None

    def __repr__(self) -> str:
        return f"Experience({self.eid.uid}, {len(self.tokens)} tokens, reward {self.reward})"

    def to_dict(self) -> dict[str, Any]:
        """Return what can be read of it: without tokens."""
        out = {
            "eid": self.eid.to_dict(),
            "type": self.experience_type,
            "prompt_length": self.prompt_length,
            "response_length": len(self.tokens) - self.prompt_length,
            "info": self.info,
            "metrics": self.metrics,
        }
        names = ("prompt_text", "response_text", "messages", "tools", "chosen_messages", "rejected_messages", "reward",
                 "truncate_status")  # fmt: skip
        out |= {name: value for name in names if (value := getattr(self, name)) is not None}
        if self.reward is not None:
            out["reward"] = float(self.reward)
        return out


def group_by(experiences: Iterable[Experience], id_type: str) -> dict[str, list[Experience]]:
    """Return experiences by the ids of their task, run or step."""
    names = {"task": "tid", "run": "rid", "step": "sid"}
    if id_type not in names:
        raise ValueError(f"id_type is {id_type!r}; want one of {', '.join(names)}")
    out: dict[str, list[Experience]] = {}
    for e in experiences:
        out.setdefault(getattr(e.eid, names[id_type]), []).append(e)
    return out


def split_dpo_experience_to_single_turn(experiences: Iterable[Experience]) -> list[Experience]:
    """Return the chosen and the rejected sequence of each pair, one after the other."""
    out = []
    for e in experiences:
        for ids, messages in ((e.chosen, e.chosen_messages), (e.rejected, e.rejected_messages)):
            eid = EID(batch=e.eid.batch, task=e.eid.task, step=e.eid.step, run=e.eid.run)
            prompt = list_of(e.tokens)
            out.append(
                Experience(
                    eid=eid,
                    tokens=prompt + list_of(ids),
                    prompt_length=len(prompt),
                    reward=e.reward,
                    info=e.info,
                    metrics=e.metrics,
                    prompt_text=e.prompt_text,
                    messages=messages,
                )
            )
    return out


def _padded(rows: Sequence[tuple[int, Any]], width: int, pad: Any, dtype: Any) -> Any:
    """Return rows, each of which begins at its place, as one tensor of a width."""
    torch = load("torch")
    out = torch.full((len(rows), width), pad, dtype=dtype)
    for i, (at, values) in enumerate(rows):
        values = values.tensor() if isinstance(values, Numbers) else values
        out[i, at : at + len(values)] = values
    return out


def gather_token_ids(
    experiences: Sequence[Experience], max_prompt_length: int, max_response_length: int, pad_token_id: int
) -> Any:
    rows = [(max_prompt_length - e.prompt_length, e.tokens) for e in experiences]
    return _padded(rows, max_prompt_length + max_response_length, pad_token_id, experiences[0].tokens.dtype)


def gather_action_masks(experiences: Sequence[Experience], max_response_length: int) -> Any:
    torch = load("torch")
    return _padded([(0, e.action_mask) for e in experiences], max_response_length, False, torch.bool)


def gather_attention_masks(experiences: Sequence[Experience], max_prompt_length: int, max_response_length: int) -> Any:
    torch = load("torch")
    rows = [(max_prompt_length - e.prompt_length, torch.ones(len(e.tokens), dtype=torch.bool)) for e in experiences]
    return _padded(rows, max_prompt_length + max_response_length, False, torch.bool)


def gather_response_attrs(
    experiences: Sequence[Experience], attr_name: str, max_response_length: int, pad_value: float = 0
) -> Any:
    rows = [(0, getattr(e, attr_name)) for e in experiences]
    return _padded(rows, max_response_length, pad_value, rows[0][1].dtype)


def gather_multi_modal_inputs(experiences: Sequence[Experience]) -> dict[str, list[Any]]:
    first = experiences[0].multi_modal_inputs or {}
    return {key: [(e.multi_modal_inputs or {})[key] for e in experiences] for key in first}


# ---- what becomes of experiences ----


def customs(e: Experience, what: str, shift: int = 0) -> dict[str, Any]:
    """Return the entries of info that custom_fields make: numbers, and lists of a number for each token of the response.
    The response begins so many tokens behind that of the run. what is the experience in messages."""
    from ..losses import OFFERED  # which imports this module

    out: dict[str, Any] = {}
    for given in e.custom_fields:
        name = given.destination_field
        if given.source_field not in e.info:
            raise Told(f"custom_fields of {what} take info[{given.source_field!r}], which it does not have")
        if name in OFFERED:
            raise Told(f"custom_fields of {what} make {name}, which the run gives a loss itself: choose another name")
        value = e.info[given.source_field]
        values = value.tolist() if hasattr(value, "tolist") else value
        if not isinstance(values, (list, tuple)):
            out[name] = _finite(values, f"{name}, a custom field of {what},")
            continue
        length = len(e.tokens) - e.prompt_length
        if len(values) != length:
            raise Told(
                f"{name}, a custom field of {what}, has {len(values)} numbers: want {length}, one for each token of the response"
            )
        numbers = [_finite(v, f"{name}, a custom field of {what}, at token {t}") for t, v in enumerate(values)]
        out[name] = [0.0] * shift + numbers[max(0, -shift) :]
    return out


def _finite(value: Any, what: str) -> float:
    number = number_of(value)
    if number is None:
        raise Told(f"{what} is {value!r:.40}: want a finite number")
    return number


# What truncate_status may say in a run.
_TRUNCATIONS = ("response_truncated", "tokens_truncated", "turns_truncated")
_MOST_METRICS = 64
_left_out: set[str] = set()


def to_posted(experiences: Sequence[Experience], recorded: Iterable[Recorded] = ()) -> dict[str, list[dict[str, Any]]]:
    """Return the body of POST experiences for what a workflow has returned.

    recorded are the sequences of the rollout's model: an experience that a class has made itself is one of them if its
    tokens are the same. Raises Told if an experience is none of the recorded ones, or has no reward.
    """
    posted, places = [], dict[int, int]()
    known = list(recorded)
    tasks = sorted({str(e.eid.task) for e in experiences})
    if len(tasks) > 1 and "eid" not in _left_out:
        _left_out.add("eid")
        _log.warning(
            "a rollout returns experiences of %s: they are all of its own task, and compared there", ", ".join(tasks)
        )
    for i, e in enumerate(experiences):
        own = _recorded_of(i, e, known)
        if places.setdefault(own.turn, i) != i:
            raise Told(f"experiences {places[own.turn]} and {i} both end with call {own.turn}: return each once")
        reward = number_of(e.reward)
        if reward is None:
            raise Told(f"the reward of experience {i} is {e.reward!r:.80}, which is no number", kind="reward")
        one: dict[str, Any] = {"turn": own.turn, "reward": reward}
        learn = _learn(i, e, own)
        if learn is not None:
            one["learn"] = learn
        if metrics := _metrics(e.metrics):
            one["metrics"] = metrics
        info = dict(e.info) | customs(e, f"experience {i}", e.prompt_length - own.prompt_length)
        if e.truncate_status in _TRUNCATIONS:
            one["truncated"] = e.truncate_status
        elif e.truncate_status:
            info["truncate_status"] = e.truncate_status
        if info:
            one["info"] = _json(info)
        if e.teacher_logprobs is not None:
            one["teacher_logprobs"] = _teacher(i, e, own)
        for name in ("advantages", "returns", "token_level_reward"):
            if getattr(e, name) is not None and name not in _left_out:
                _left_out.add(name)
                _log.warning("an experience of a workflow has %s, which is left out: the trainer computes it", name)
        posted.append(one)
    if posted and all(one.get("learn") == [] for one in posted) and "learn" not in _left_out:
        _left_out.add("learn")
        _log.warning("action_mask is 0 at every token of a rollout's experiences: nothing of it is trained")
    return {"experiences": posted}


def split_by_endpoint(
    experiences: Sequence[Experience], recorded: Iterable[Recorded] = (), endpoints: int = 1
) -> list[list[Experience]]:
    """Return the experiences of each endpoint of a model: those of each rollout of a group."""
    out: list[list[Experience]] = [[] for _ in range(endpoints)]
    known = list(recorded)
    for i, e in enumerate(experiences):
        out[_recorded_of(i, e, known).endpoint].append(e)
    return out


def _recorded_of(i: int, e: Experience, known: Sequence[Recorded]) -> Recorded:
    """Return the recorded sequence that an experience is."""
    ids = array.array("i", list_of(e.tokens))
    if e.recorded is not None and e.recorded.ids == ids:
        return e.recorded
    if e.recorded is None:
        e.recorded = next((r for r in known if r.ids == ids), None)
        if e.recorded is not None:
            return e.recorded
    candidates = [e.recorded] if e.recorded else known
    more = ": demonstrations (is_expert) are rows of a buffer here" if e.info.get("is_expert") else ""
    if more or not candidates:
        raise Told(f"experience {i} is none that the policy sampled in this rollout{more}")
    nearest = max(candidates, key=lambda r: _common(r.ids, ids))
    at = _common(nearest.ids, ids)
    was, is_ = ([str(x[at]) if at < len(x) else "nothing"][0] for x in (nearest.ids, ids))
    raise Told(
        f"tokens of experience {i} differ from the recorded ones at {at}: it has {is_}, and call {nearest.turn} has {was}; "
        "return the experience with the tokens that the policy sampled"
    )


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """Return how many tokens two sequences have in common from their begin."""
    return next((k for k, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def _learn(i: int, e: Experience, own: Recorded) -> list[list[int]] | None:
    """Return the places in the response of the recorded sequence that an experience learns; None if it is all of it."""
    length, shift = len(own.ids) - e.prompt_length, e.prompt_length - own.prompt_length
    mask = [True] * length if e.action_mask is None else list_of(e.action_mask)
    if len(mask) != length:
        raise Told(
            f"action_mask of experience {i} has {len(mask)} places, and its response {length} tokens "
            f"({len(own.ids)} less a prompt of {e.prompt_length})"
        )
    if shift == 0 and all(mask):
        return None
    out: list[list[int]] = []
    for at, wanted in enumerate(mask):
        if not wanted:
            continue
        if at + shift < 0:
            raise Told(f"action_mask of experience {i} names token {at + e.prompt_length}, which is of the prompt")
        if out and out[-1][1] == at + shift:
            out[-1][1] += 1
        else:
            out.append([at + shift, at + shift + 1])
    return out


def _teacher(i: int, e: Experience, own: Recorded) -> list[float | None]:
    """Return the log-probabilities under a teacher of the response of the recorded sequence; None where there is no number."""
    given = list_of(e.teacher_logprobs)
    length, shift = len(own.ids) - e.prompt_length, e.prompt_length - own.prompt_length
    if len(given) != length:
        raise Told(
            f"teacher_logprobs of experience {i} are {len(given)}, and its response has {length} tokens "
            f"({len(own.ids)} less a prompt of {e.prompt_length})"
        )
    for at, (number, learnt) in enumerate(zip(given, list_of(e.action_mask))):
        if learnt and not math.isfinite(number):
            raise Told(f"teacher_logprobs of experience {i} are {number} at token {at + e.prompt_length}")
    out: list[float | None] = [None] * max(shift, 0)
    for number in given[max(-shift, 0) :]:
        out.append(float(f"{number:.9g}") if math.isfinite(number) else None)  # as many digits as float32 has
    return out


def _metrics(given: Mapping[str, Any] | None) -> dict[str, float]:
    """Return the metrics that a run can take. What it cannot take is named once in the log."""
    out: dict[str, float] = {}
    for name, value in (given or {}).items():
        number = number_of(value)
        key = metric_name(name)
        if number is not None and len(out) < _MOST_METRICS:
            out[key] = number
        elif name not in _left_out:
            _left_out.add(name)
            _log.warning(
                "metric %s is %s: it is left out where it is no finite number, or there are too many", name, value
            )
    return out


def _json(value: Any) -> Any:
    """Return what JSON can say of a value; for the rest its text."""
    if isinstance(value, Mapping):
        return {str(k): _json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    try:
        return _json(plain(value))
    except TypeError:
        return str(value)
