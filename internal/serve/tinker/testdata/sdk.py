"""Call every public method of the SDK's clients, and print what each does: a line of JSON a method.

With the argument "older" the SDK may lack some of these methods, and have some that the newest lacks.
"""

import asyncio
import inspect
import itertools
import json
import logging
import os
import re
import sys
import warnings
from datetime import date

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

import tinker  # noqa: E402
from tinker import types  # noqa: E402
from tinker.lib import public_interfaces  # noqa: E402
from tinker.lib.public_interfaces.rest_client import RestClient  # noqa: E402

try:
    import torch
except ImportError:
    torch = None  # losses of one's own are not tried then

BASE, NAMES = "tiny", itertools.count()
OLDER = "older" in sys.argv


def settle(x):
    """Wait for a result, however it comes. Older versions return some clients without a future."""
    while True:
        if hasattr(x, "result") and callable(x.result):
            x = x.result()
        elif inspect.isawaitable(x):

            async def wait(x=x):
                return await x

            x = asyncio.run(wait())
        else:
            return x


service = tinker.ServiceClient(project_id="project")
training = settle(service.create_lora_training_client(base_model=BASE, rank=2, seed=1, train_unembed=False))
sampling = settle(service.create_sampling_client(base_model=BASE))
RUN = training.get_info().model_id
SESSION = RUN.split(":")[0]
PROMPT = types.ModelInput.from_ints([1, 2, 3, 4])
FEW = types.SamplingParams(max_tokens=2, seed=1)


def saved() -> str:
    training.optim_step(types.AdamParams(learning_rate=0)).result()  # no gradient may wait
    return training.save_state(f"c{next(NAMES)}").result().path


def sampler_path() -> str:
    return training.save_weights_for_sampler(f"s{next(NAMES)}").result().path


def datum() -> types.Datum:
    inputs = {"target_tokens": [2, 3, 4, 5], "weights": [1.0] * 4}
    return types.Datum(model_input=PROMPT, loss_fn_inputs=inputs)


def custom(_data, logprobs):
    loss = -torch.stack([lp.sum() for lp in logprobs]).sum()
    return loss, {"custom:sum": float(loss)}


def traced(logprobs, weights):
    loss = -(logprobs * weights).sum()
    return loss, {"custom/nll:sum": loss}


# What each method gets: a function that returns its arguments. A method with _async gets those of the one without.
CASES = {
    tinker.ServiceClient: {
        "get_console_url": lambda: (),
        "get_server_capabilities": lambda: (),
        "create_lora_training_client": lambda: (BASE, 2),
        "copy_weights": lambda: (saved(),),
        "create_training_client_from_state": lambda: (saved(),),
        "create_training_client_from_state_with_optimizer": lambda: (saved(),),
        "create_sampling_client": lambda: (sampler_path(),),
        "create_custom_loss": lambda: (traced, {"logprobs": 1, "weights": 1}),
        "create_rest_client": lambda: (),
        "get_telemetry": lambda: (),
        "close": lambda: ("success",),
    },
    tinker.TrainingClient: {
        "get_console_url": lambda: (),
        "forward": lambda: ([datum()], "cross_entropy"),
        "forward_backward": lambda: ([datum()], "cross_entropy"),
        "forward_backward_custom": lambda: ([datum()], custom),
        "optim_step": lambda: (types.AdamParams(learning_rate=1e-3),),
        "save_state": lambda: (f"c{next(NAMES)}", 3600),
        "load_state": lambda: (saved(),),
        "load_state_with_optimizer": lambda: (saved(),),
        "save_weights_for_sampler": lambda: (f"s{next(NAMES)}",),
        "save_weights_external": lambda: (f"e{next(NAMES)}",),
        "get_info": lambda: (),
        "get_tokenizer": lambda: (),
        "create_sampling_client": lambda: (sampler_path(),),
        "save_weights_and_get_sampling_client": lambda: (),
        "get_telemetry": lambda: (),
    },
    tinker.SamplingClient: {
        "create": lambda: {"holder": service.holder, "base_model": BASE},
        "sample": lambda: (PROMPT, 2, FEW),
        "compute_logprobs": lambda: (PROMPT,),
        "get_tokenizer": lambda: (),
        "get_base_model": lambda: (),
        "get_telemetry": lambda: (),
        "get_sampler_handle": lambda: (),
        "from_sampler_handle": lambda: (sampling.get_sampler_handle(),),
        "on_queue_state_change": lambda: ("active", None),
    },
    RestClient: {
        "get_telemetry": lambda: (),
        "get_server_capabilities": lambda: (),
        "get_training_run": lambda: (RUN,),
        "get_training_run_by_tinker_path": lambda: (saved(),),
        "get_weights_info_by_tinker_path": lambda: (saved(),),
        "list_training_runs": lambda: (),
        "list_checkpoints": lambda: (RUN,),
        "list_user_checkpoints": lambda: (),
        "get_external_weights_urls": lambda: (f"tinker://{RUN}/external_weights/e",),
        "delete_checkpoint": lambda: (RUN, saved().split("/", 3)[3]),
        "delete_checkpoint_from_tinker_path": lambda: (saved(),),
        "copy_weights": lambda: (saved(), "project"),
        "publish_checkpoint_from_tinker_path": lambda: (saved(),),
        "unpublish_checkpoint_from_tinker_path": lambda: (saved(),),
        "set_checkpoint_ttl_from_tinker_path": lambda: (saved(), 3600),
        "get_session": lambda: (SESSION,),
        "list_sessions": lambda: (),
        "search_sessions": lambda: (types.SessionSearchRequest(),),
        "assign_session_project": lambda: (SESSION, "other"),
        "get_sampler": lambda: (f"{SESSION}:sample:0",),
        "export_session_trace": lambda: (SESSION,),
        "whoami": lambda: (),
        "get_audit_log": lambda: (),
        "get_billing_usage": lambda: (date(2026, 1, 1).isoformat(), date(2026, 1, 2).isoformat()),
        "get_current_checkpoint_storage_usage": lambda: (),
    },
}
ADMIN = "get_telemetry", "get_audit_log", "get_billing_usage", "get_current_checkpoint_storage_usage"
CLIENTS = {
    tinker.ServiceClient: service,
    tinker.TrainingClient: training,
    tinker.SamplingClient: sampling,
    RestClient: service.create_rest_client(),
}
if hasattr(public_interfaces, "AdminClient"):
    CASES[public_interfaces.AdminClient] = {name: CASES[RestClient][name] for name in ADMIN}
    CLIENTS[public_interfaces.AdminClient] = public_interfaces.AdminClient()
if OLDER:
    archive = {
        "get_checkpoint_archive_url": lambda: (RUN, saved().split("/", 3)[3]),
        "get_checkpoint_archive_url_from_tinker_path": lambda: (saved(),),
    }
    CASES[RestClient].update(archive)
else:
    CLIENTS[RestClient] = RestClient()  # it has a session of its own


def sentence(e: BaseException) -> str:
    body = getattr(e, "body", None)
    text = body["detail"] if isinstance(body, dict) and "detail" in body else f"{e}"
    text = text.removeprefix("Request failed: ").split(" for self.request_id=")[0]
    return re.sub(r"[a-z0-9]{26}", "SESSION", text).replace("\n", " ")


def public(client: type) -> list[str]:
    return [n for n, v in inspect.getmembers(client) if not n.startswith("_") and callable(v)]


def main() -> None:
    for client, cases in CASES.items():
        methods = public(client)
        for unknown in () if OLDER else sorted(cases.keys() - set(methods)):
            sys.exit(f"{client.__name__} has no {unknown}")
        for name in sorted(methods, key=lambda n: (n.startswith("close"), n)):
            case = cases.get(name) or cases.get(name.removesuffix("_async"))
            if case is None:
                sys.exit(f"no case for {client.__name__}.{name}")
            if name == "close" and client is tinker.ServiceClient:
                continue  # below: it ends what the others need
            line = {"client": client.__name__, "method": name, "refused": "", "untried": torch is None and "custom" in name}
            if line["untried"]:
                print(json.dumps(line), flush=True)
                continue
            try:
                given = case()
                method = getattr(CLIENTS[client], name)
                result = settle(method(**given) if isinstance(given, dict) else method(*given))
                if name.startswith("sample") and len(result.sequences) != 2:
                    sys.exit(f"{name}: {result}")
            except Exception as e:  # noqa: BLE001: whatever the SDK makes of a refusal
                line["refused"] = sentence(e)
            print(json.dumps(line), flush=True)
    if hasattr(service, "close"):
        settle(service.close("success"))
        print(json.dumps({"client": "ServiceClient", "method": "close", "refused": ""}), flush=True)


main()
os._exit(0)  # the SDK's transport aborts now and then while Python ends
