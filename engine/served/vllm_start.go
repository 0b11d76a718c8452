package served

import (
	"fmt"
	"maps"
	"strconv"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/model"
)

// newVLLM returns the plug-in. The plug-in trinity_files of vLLM comes along with the program that starts a server.
func newVLLM() *vllmPlugin {
	return &vllmPlugin{*newStartable(product{
		pkg: "vllm", key: "VLLM_API_KEY", modelFlag: "--model", seedFlag: "--seed", limitFlag: "--max-model-len", negation: "--no-",
		flags: vllmFlags, extraWords: []string{"--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"},
		kind: func(s *startable, cfg *model.Config, spec *engine.SamplerSpec, own *owned) kind {
			n, _ := needsOf(spec, cfg) // OpenSampler returns the error
			return vllmKind{
				experts: n.experts,
				model:   s.Model, keep: spec.KeepAcrossVersions, lora: spec.LoRA != nil, tied: cfg.TieEmbeddings,
				files: newFileServer(wait.Seconds(s.LoadTimeout), own),
			}
		},
		reads: []string{"explorer.rollout_model.kv_across_versions"}, refuses: largeAdapters,
	})}
}

// vllmPlugin is the plug-in of vLLM.
type vllmPlugin struct {
	startable `yaml:",inline"`
}

// SeesImages says that prompts may have images.
func (*vllmPlugin) SeesImages() {}

// imagesInPrompt bounds what a started server plans memory for and takes in one prompt. An argument of
// explorer.rollout_model.extra_engine_args comes later and counts.
const imagesInPrompt = `{"image": 16, "video": 0}`

func vllmFlags(c *command, spec *engine.SamplerSpec) {
	s := &spec.Start
	maps.Copy(c.env, map[string]string{"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"})
	if spec.Start.Place.GPUs > 0 {
		c.add(true, "--gpu-memory-utilization", fmt.Sprint(s.MemoryShare), flag("enable-chunked-prefill", s.ChunkedPrefill))
	} else { // vLLM 0.32 on a CPU takes nearly all memory, and dies of a request with a seed whose prompt it computes in parts
		c.env["VLLM_CPU_KVCACHE_SPACE"] = "2" // GiB
		c.add(true, flag("enable-chunked-prefill", false), "--max-num-batched-tokens", strconv.Itoa(max(8192, spec.MaxModelLen)))
	}
	c.add(true, flag("enable-prefix-caching", s.PrefixCaching))
	if cfg, err := model.ReadConfig(spec.ModelPath); err == nil && cfg.Vision() != nil {
		c.add(true, scaleOut, "--limit-mm-per-prompt", imagesInPrompt)
	}
	c.add(spec.Start.Place.Beside != "", "--enable-sleep-mode")
	c.add(s.Eager, "--enforce-eager")
	c.add(s.ExpertParallel, "--enable-expert-parallel")
	if spec.Record.Routes {
		c.env["VLLM_USE_V2_MODEL_RUNNER"] = "1" // the other one records no experts
		c.add(true, "--enable-return-routed-experts")
	}
	if spec.LoRA != nil {
		c.env["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"
		c.add(true, "--enable-lora", "--max-loras", strconv.Itoa(2+len(spec.Adapters)+spec.Slots))
		needs := needsToStart(spec)
		c.add(true, "--max-lora-rank", strconv.Itoa(roomFor(needs.rank)))
		c.add(needs.experts, mixedFlag)
	} else {
		c.add(spec.Follows, "--weight-transfer-config", `{"backend": "`+filesBackend+`"}`)
	}
}

// ranks of adapters for which vLLM has kernels.
var ranks = []int{8, 16, 32, 64, 128, 256, 320, mostRank}

const mostRank = 512

// largeAdapters refuses adapters that no server which the run starts takes.
func largeAdapters(c *config.Settled) (all []config.Refusal) {
	for i, l := range c.Model.LoraConfigs {
		if l.LoraRank > mostRank {
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

func flag(name string, enabled bool) string {
	if enabled {
		return "--" + name
	}
	return "--no-" + name
}
