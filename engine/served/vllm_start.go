package served

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
)

// vllmKey is the variable with the API key of a server.
const vllmKey = "VLLM_API_KEY"

// started are the keys that say how servers are started.
var started = []string{
	"cluster", "explorer.rollout_model.tensor_parallel_size", "explorer.rollout_model.data_parallel_size",
	"explorer.rollout_model.pipeline_parallel_size", "explorer.rollout_model.enable_expert_parallel",
	"explorer.rollout_model.gpu_memory_utilization", "explorer.rollout_model.extra_engine_args", "explorer.rollout_model.enforce_eager",
	"explorer.rollout_model.enable_prefix_caching", "explorer.rollout_model.enable_chunked_prefill", "explorer.rollout_model.dtype",
}

// Programs returns the servers that OpenSampler starts.
func (v *vllm) Programs(spec trinity.SamplerSpec) (all []trinity.Program) {
	if len(spec.Servers) > 0 {
		return nil
	}
	key := rand.Text()
	for i := range spec.Start.Engines {
		all = append(all, v.program(spec, i, key))
	}
	return all
}

// program returns the i-th server. The plug-in trinity_files comes along with the program that starts it.
func (v *vllm) program(spec trinity.SamplerSpec, i int, key string) trinity.Program {
	s := &spec.Start
	path, err := filepath.Abs(spec.ModelPath) // the server has another working directory
	if err != nil {
		path = spec.ModelPath
	}
	command := []string{
		v.Python, "-m", "vllm.entrypoints.openai.api_server", "--model", path, "--host", "{host}", "--port", "{port}",
		"--logprobs-mode", "processed_logprobs", "--generation-config", "vllm", "--seed", strconv.Itoa(s.Seed),
		"--dtype", s.DType, "--tensor-parallel-size", strconv.Itoa(max(1, s.TensorParallel)),
		"--pipeline-parallel-size", strconv.Itoa(max(1, s.PipelineParallel)), "--data-parallel-size", strconv.Itoa(max(1, s.DataParallel)),
	}
	if spec.MaxModelLen > 0 {
		command = append(command, "--max-model-len", strconv.Itoa(spec.MaxModelLen))
	}
	env := map[string]string{
		"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1",
	}
	if spec.Place.GPUs > 0 {
		command = append(command, "--gpu-memory-utilization", fmt.Sprint(s.MemoryShare), flag("enable-chunked-prefill", s.ChunkedPrefill))
	} else { // vLLM 0.32 on a CPU takes nearly all memory, and dies of a request with a seed whose prompt it computes in parts
		env["VLLM_CPU_KVCACHE_SPACE"] = "2" // GiB
		command = append(command, flag("enable-chunked-prefill", false), "--max-num-batched-tokens", strconv.Itoa(max(8192, spec.MaxModelLen)))
	}
	command = append(command, flag("enable-prefix-caching", s.PrefixCaching))
	if spec.Place.Beside != "" {
		command = append(command, "--enable-sleep-mode")
	}
	if s.Eager {
		command = append(command, "--enforce-eager")
	}
	if s.ExpertParallel {
		command = append(command, "--enable-expert-parallel")
	}
	if spec.LoRA != nil {
		env["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"
		command = append(command, "--enable-lora", "--max-loras", "2", "--max-lora-rank", strconv.Itoa(roomFor(spec.LoRA.LoraRank)))
	} else if spec.Follows {
		command = append(command, "--weight-transfer-config", `{"backend": "`+filesBackend+`"}`)
	}
	secret := map[string]string{vllmKey: key}
	maps.Copy(secret, v.Env)
	for name := range secret { // of a name in both, a launcher may take either value
		delete(env, name)
	}
	return trinity.Program{
		Name: "rollout-" + strconv.Itoa(i), Nodes: 1, GPUs: spec.Place.GPUs, Beside: spec.Place.Beside, Python: v.Python,
		Command: append(command, extra(s.Extra)...), Answers: "/health", Modules: []string{"vllm"},
		Hint: "install vllm there, or name another interpreter in explorer.rollout_model.engine_args.python",
		Env:  env, Secret: secret,
	}
}

// ranks of adapters for which vLLM has kernels.
var ranks = []int{8, 16, 32, 64, 128, 256, 320, 512}

// roomFor returns the least of these that an adapter fits in.
func roomFor(rank int) int {
	for _, r := range ranks {
		if rank <= r {
			return r
		}
	}
	return rank
}

func flag(name string, on bool) string {
	if on {
		return "--" + name
	}
	return "--no-" + name
}

// extra returns explorer.rollout_model.extra_engine_args as a command has them.
func extra(args map[string]any) (words []string) {
	for _, key := range slices.Sorted(maps.Keys(args)) {
		name := strings.ReplaceAll(key, "_", "-")
		switch value := args[key].(type) {
		case bool:
			words = append(words, flag(name, value))
		case string, int, int64, uint64, float64:
			words = append(words, "--"+name, fmt.Sprint(value))
		default:
			text, err := json.Marshal(value)
			if err != nil {
				text = fmt.Append(nil, value)
			}
			words = append(words, "--"+name, string(text))
		}
	}
	return words
}
