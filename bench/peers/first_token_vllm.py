"""first_token_vllm.py DIR: from process start to one token of vLLM, with its defaults."""
import sys

from vllm_here import start

if __name__ == "__main__":
    from vllm import SamplingParams

    llm = start(sys.argv[1])
    print(llm.chat([{"role": "user", "content": "Hi"}], SamplingParams(max_tokens=1), use_tqdm=False)[0].outputs[0].text)
