package served

import (
	"fmt"
	"strconv"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
)

// sglangKey is the variable with the key of a server.
const sglangKey = "SGLANG_API_KEY"

// Programs returns the servers that OpenSampler starts.
func (s *sglang) Programs(spec engine.SamplerSpec) []engine.Program {
	return s.programs(spec, sglangKey, s.program)
}

// program returns a server. trinity_worker starts it, because SGLang takes a key as an argument alone.
func (s *sglang) program(spec engine.SamplerSpec) engine.Program {
	o := &spec.Start
	tensor := max(1, o.TensorParallel)
	command := []string{
		s.Python, "-m", "trinity_worker.sglang_server", "--model-path", absolute(spec.ModelPath), "--host", "{host}", "--port", "{port}",
		"--random-seed", strconv.Itoa(o.Seed), "--dtype", o.DType, "--tensor-parallel-size", strconv.Itoa(tensor),
		"--pipeline-parallel-size", strconv.Itoa(max(1, o.PipelineParallel)), "--data-parallel-size", strconv.Itoa(max(1, o.DataParallel)),
	}
	env := map[string]string{"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
	add := func(on bool, words ...string) {
		if on {
			command = append(command, words...)
		}
	}
	add(spec.MaxModelLen > 0, "--context-length", strconv.Itoa(spec.MaxModelLen))
	if spec.Place.GPUs > 0 { // seeds are ignored otherwise
		add(true, "--mem-fraction-static", fmt.Sprint(o.MemoryShare), "--enable-deterministic-inference")
	} else {
		env["SGLANG_USE_CPU_ENGINE"] = "1"
		add(true, "--device", "cpu", "--disable-overlap-schedule")
	}
	add(!o.ChunkedPrefill, "--chunked-prefill-size", "-1")
	add(!o.PrefixCaching, "--disable-radix-cache")
	add(o.Eager, "--disable-cuda-graph")
	add(o.ExpertParallel, "--expert-parallel-size", strconv.Itoa(tensor))
	add(spec.Place.Beside != "", "--enable-memory-saver", "--enable-weights-cpu-backup")
	if spec.LoRA != nil { // a batch may have the model, the policy that comes, the one that goes and the others
		add(true, "--enable-lora", "--max-lora-rank", strconv.Itoa(rankToStart(&spec)), "--lora-target-modules", "all",
			"--max-loras-per-batch", strconv.Itoa(3+len(spec.Adapters)))
	}
	add(true, extra(o.Extra, func(string) []string { return nil })...)
	return engine.Program{Command: command, Modules: []string{"sglang"}, Env: env}
}

// unstartable returns the values with which no server can be started.
func unstartable(c *config.Settled) (all []config.Refusal) {
	m := &c.Explorer.RolloutModel
	if len(m.BaseUrls) == 0 && len(c.Model.LoraConfigs) > 0 && m.DataParallelSize > 1 {
		all = append(all, config.Refusal{
			Key:  "explorer.rollout_model.data_parallel_size",
			What: "more than 1 with an adapter (model.lora_configs): such an SGLang server takes none while it runs",
			Hint: "set it to 1, and engine_num to the number of servers",
		})
	}
	return all
}
