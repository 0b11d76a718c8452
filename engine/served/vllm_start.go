package served

import (
	"fmt"
	"strconv"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
)

// vllmKey is the variable with the key of a server.
const vllmKey = "VLLM_API_KEY"

// Programs returns the servers that OpenSampler starts.
func (v *vllm) Programs(spec engine.SamplerSpec) []engine.Program {
	return v.programs(spec, vllmKey, v.program)
}

// program returns a server. The plug-in trinity_files comes along with the program that starts it.
func (v *vllm) program(spec engine.SamplerSpec) engine.Program {
	s := &spec.Start
	command := []string{
		v.Python, "-m", "trinity_worker.vllm_server", "--model", absolute(spec.ModelPath), "--host", "{host}", "--port", "{port}",
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
		command = append(command, "--enable-lora", "--max-loras", strconv.Itoa(2+len(spec.Adapters)),
			"--max-lora-rank", strconv.Itoa(roomFor(rankToStart(&spec))))
	} else if spec.Follows {
		command = append(command, "--weight-transfer-config", `{"backend": "`+filesBackend+`"}`)
	}
	command = append(command, extra(s.Extra, func(name string) []string { return []string{flag(name, false)} })...)
	return engine.Program{Command: command, Modules: []string{"vllm"}, Env: env}
}

// ranks of adapters for which vLLM has kernels.
var ranks = []int{8, 16, 32, 64, 128, 256, 320, mostRank}

const mostRank = 512

// largeAdapters refuses adapters that no server which the run starts takes.
func largeAdapters(c *config.Settled) (all []config.Refusal) {
	for i, l := range c.Model.LoraConfigs {
		if l.LoraRank > mostRank && len(c.Explorer.RolloutModel.BaseUrls) == 0 {
			all = append(all, config.Refusal{
				Key:  fmt.Sprintf("model.lora_configs.%d.lora_rank", i),
				What: fmt.Sprintf("rank %d: vLLM takes adapters of rank %d at most", l.LoraRank, mostRank),
				Hint: "lower it",
			})
		}
	}
	return all
}

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
