package served

import (
	"fmt"
	"strconv"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/model"
)

// newSGLang returns the plug-in. trinity_worker starts a server, because SGLang takes a key as an argument
// alone.
func newSGLang() *startable {
	return newStartable(product{
		pkg: "sglang", key: "SGLANG_API_KEY", modelFlag: "--model-path", seedFlag: "--random-seed", limitFlag: "--context-length",
		flags: sglangFlags,
		kind: func(_ *startable, cfg *model.Config, spec *engine.SamplerSpec, _ *owned) kind {
			n, _ := needsOf(spec, cfg) // OpenSampler returns the error
			return sglangKind{lora: spec.LoRA != nil, experts: n.experts}
		},
		refuses: func(c *config.Settled) (all []config.Refusal) {
			for i, l := range c.Model.LoraConfigs {
				if len(l.TargetParameters) > 0 {
					all = append(all, config.Refusal{
						Key:  fmt.Sprintf("model.lora_configs.%d.target_parameters", i),
						What: untriedExperts,
						Hint: "leave it out, or sample with vllm or with another engine, also with --engine cpu",
					})
				}
			}
			if len(c.Model.LoraConfigs) == 0 || c.Explorer.RolloutModel.DataParallelSize <= 1 {
				return all
			}
			return append(all, config.Refusal{
				Key:  "explorer.rollout_model.data_parallel_size",
				What: "more than 1 with an adapter (model.lora_configs): such an SGLang server takes none while it runs",
				Hint: "set it to 1, and engine_num to the number of servers",
			})
		},
	})
}

func sglangFlags(c *command, spec *engine.SamplerSpec) {
	o := &spec.Start
	if spec.Start.Place.GPUs > 0 { // seeds are ignored otherwise
		c.add(true, "--mem-fraction-static", fmt.Sprint(o.MemoryShare), "--enable-deterministic-inference")
	} else {
		c.env["SGLANG_USE_CPU_ENGINE"] = "1"
		c.add(true, "--device", "cpu", "--disable-overlap-schedule")
	}
	c.add(!o.ChunkedPrefill, "--chunked-prefill-size", "-1")
	c.add(!o.PrefixCaching, "--disable-radix-cache")
	c.add(o.Eager, "--disable-cuda-graph")
	c.add(o.ExpertParallel, "--expert-parallel-size", strconv.Itoa(max(1, o.TensorParallel)))
	c.add(spec.Record.Routes, "--enable-return-routed-experts")
	c.add(spec.Start.Place.Beside != "", "--enable-memory-saver", "--enable-weights-cpu-backup")
	if spec.LoRA != nil { // a batch may have the model, the policy that comes, the one that goes and the others
		c.add(true, "--enable-lora", "--max-lora-rank", strconv.Itoa(needsToStart(spec).rank), "--lora-target-modules", "all",
			"--max-loras-per-batch", strconv.Itoa(3+len(spec.Adapters)+spec.Slots))
	}
}
