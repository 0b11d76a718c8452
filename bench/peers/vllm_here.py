"""vLLM on all cores of this machine, in this process."""
import os

os.environ["VLLM_CPU_KVCACHE_SPACE"] = "2"
os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
os.environ["VLLM_NO_USAGE_STATS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"


def start(model, **settings):
    from vllm import LLM

    return LLM(model=model, dtype="float32", max_model_len=512, max_num_seqs=64, enable_prefix_caching=True, **settings)
