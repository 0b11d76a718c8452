#!/bin/bash
# The PyTorch worker beside a plain loop on one GPU, at 0.5B: the rows torch_step and torch_groups. It needs no network and no
# Go there, only a Python with torch, transformers, peft and safetensors.
#
# Prepare in the repository's root, and take the folder gpu-bench along with the repository:
#   mkdir -p gpu-bench && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o gpu-bench/bench ./bench && xz -f gpu-bench/bench
#   cp DIR/tokenizer*.json gpu-bench        # of SmolLM2-135M-Instruct, whose vocabulary the model has
# Then there: bash bench/gpu.sh             # rows in $OUT, 5 minutes at most
#   GPU_SECONDS  all of it (default 290)    GPU_TINY=1  two layers, to try the script on a CPU
set -u
ROOT=$(cd "$(dirname "$0")/.." && pwd)
KIT=${GPU_KIT:-$ROOT/gpu-bench}
OUT=${OUT:-/tmp/gpu-bench-out}
WORK=$(mktemp -d)
PYTHON=${TRINITY_PYTHON:-$(command -v python3)}
END=$(($(date +%s) + ${GPU_SECONDS:-290}))
mkdir -p "$OUT"
export PYTHONPATH=$ROOT/python/trinity_worker

BENCH=$KIT/bench
if [ ! -x "$BENCH" ]; then
	BENCH=$WORK/bench
	"$PYTHON" -c 'import lzma,shutil,sys; shutil.copyfileobj(lzma.open(sys.argv[1]), open(sys.argv[2], "wb"))' "$KIT/bench.xz" "$BENCH" || exit 1
	chmod +x "$BENCH"
fi
command -v gcc cc || echo "no C compiler: layers will not be compiled"
nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader 2>/dev/null

# 1. Does what runs on GPUs alone compute what it should? Kernels of branches, and a compiled step.
"$PYTHON" - <<'PY' 2>&1 | tee "$OUT/compiles.txt"
import torch
from trinity_worker import compiled
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print("torch", torch.__version__, device, "compiles:", compiled.works(device))
PY
if "$PYTHON" -c 'import pytest' 2>/dev/null; then
	(cd "$ROOT/python/trinity_worker" && timeout 60 "$PYTHON" -m pytest -q tests/test_products.py 2>&1 | tail -5) | tee "$OUT/kernels.txt"
fi

# 2. A model of 402M parameters with random weights, in the shape of Qwen2.5-0.5B.
GPU_MODEL=$WORK/model GPU_KIT=$KIT "$PYTHON" - <<'PY' || exit 1
import os, shutil, torch
from transformers import Qwen2Config, Qwen2ForCausalLM
torch.manual_seed(0)
tiny = bool(os.environ.get("GPU_TINY"))
to, kit = os.environ["GPU_MODEL"], os.environ["GPU_KIT"]
Qwen2ForCausalLM(Qwen2Config(
    vocab_size=49152, hidden_size=128 if tiny else 896, intermediate_size=256 if tiny else 4864,
    num_hidden_layers=2 if tiny else 24, num_attention_heads=2 if tiny else 14, num_key_value_heads=1 if tiny else 2,
    max_position_embeddings=8192, tie_word_embeddings=True,
)).save_pretrained(to)
for name in ("tokenizer.json", "tokenizer_config.json"):
    shutil.copy(os.path.join(kit, name), to)
PY

# 3. The rows.
for row in torch_step torch_groups; do
	left=$((END - $(date +%s)))
	[ "$left" -gt 20 ] || { echo "$row: no time left"; continue; }
	timeout -k 5 "$left" "$BENCH" --only "$row" --model "$WORK/model" --python "$PYTHON" --peers "packed pytorch,ourselves" --runs 3 --json \
		>"$OUT/$row.json" 2>"$OUT/$row.err" || tail -4 "$OUT/$row.err"
	cat "$OUT/$row.json"
done
rm -rf "$WORK"
