package served

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/config"
)

const (
	overHTTP        = "servers over HTTP, which run already"
	startedOverHTTP = "servers over HTTP, which the run starts or which run already"
	ofServer        = "the server that runs already decides it"
	noPython        = "no Python code is run"
)

// sharedKeys says of the keys that all engines share what a sampler behind servers reads.
func sharedKeys() map[string]string {
	keys := map[string]string{
		"explorer.rollout_model.base_urls":         "",
		"explorer.rollout_model.api_key":           "",
		"cluster":                                  "the servers run already",
		"ignore_validator_suggestions":             "there is no GPU memory check",
		"model.trust_remote_code":                  noPython,
		"model.lora_configs.*.lora_dtype":          ofServer,
		"explorer.rollout_model.trust_remote_code": noPython,
		"explorer.rollout_model.base_port":         "base_urls names the servers",
		"explorer.rollout_model.seed":              "each request has a seed of its own, which follows from the run's seed",
	}
	for _, key := range []string{
		"tensor_parallel_size", "data_parallel_size", "pipeline_parallel_size", "enable_expert_parallel", "gpu_memory_utilization",
		"weight_sync_buffer_size", "extra_engine_args", "use_v1", "enforce_eager", "enable_prefix_caching", "enable_chunked_prefill",
		"enable_runtime_lora_updating", "dtype", "enable_log_requests",
	} {
		keys["explorer.rollout_model."+key] = ofServer
	}
	for _, key := range []string{"fully_sharded_loras", "max_cpu_loras"} {
		keys["model."+key] = ofServer
	}
	return keys
}

// startedKeys are those of a sampler that starts servers unless base_urls names them.
func startedKeys(s *config.Settled) map[string]string {
	keys := sharedKeys()
	if len(s.Explorer.RolloutModel.BaseUrls) > 0 {
		return keys
	}
	keys["cluster"] = ""
	keys["explorer.rollout_model.api_key"] = "the run gives the servers that it starts a key"
	keys["explorer.rollout_model.base_port"] = "the launcher gives the servers free ports"
	for _, key := range []string{
		"tensor_parallel_size", "data_parallel_size", "pipeline_parallel_size", "enable_expert_parallel", "gpu_memory_utilization",
		"extra_engine_args", "enforce_eager", "enable_prefix_caching", "enable_chunked_prefill", "dtype", "seed",
	} {
		keys["explorer.rollout_model."+key] = ""
	}
	return keys
}

// refusals returns the values that a sampler behind servers cannot honour. starts says that it starts
// servers if none are named.
func refusals(c *config.Settled, starts bool) (all []config.Refusal) {
	const model = "explorer.rollout_model"
	refuse := func(key, what, hint string) { all = append(all, config.Refusal{Key: key, What: what, Hint: hint}) }
	if len(c.Explorer.RolloutModel.BaseUrls) == 0 && !starts {
		refuse(model+".engine_type", "starting servers",
			"start them and set "+model+".base_urls to their addresses, or choose another engine, also with --engine cpu")
	}
	for key, value := range c.Explorer.RolloutModel.ExtraEngineArgs {
		switch _, flag := value.(bool); {
		case flag || !isSecret(key):
		case strings.ReplaceAll(key, "-", "_") == "api_key":
			refuse(model+".extra_engine_args."+key, amongArguments, "leave it out: the run gives the servers that it starts a key")
		default:
			refuse(model+".extra_engine_args."+key, amongArguments,
				"set a variable of the server in "+model+".engine_args.env instead, such as HF_TOKEN for hf_token")
		}
	}
	if c.Explorer.RolloutModel.Quantization != "" {
		refuse(model+".quantization", "another quantization than the server's", "start the server with it, and use algorithm.rollout_correction")
	}
	m := &c.Explorer.RolloutModel
	key, owns := config.RoutesKey(c), starts && len(m.BaseUrls) == 0
	switch {
	case key == "":
	case !starts:
		refuse(key, "the experts of tokens, which this server does not return", "use vllm, sglang or cpu")
	case owns && m.PipelineParallelSize > 1:
		refuse(model+".pipeline_parallel_size", "pipeline stages, with which servers return no experts", "use tensor_parallel_size")
	case owns && !m.EnablePrefixCaching:
		refuse(model+".enable_prefix_caching", "no prefix cache, without which servers return no experts", "set it to true")
	}
	for i, l := range c.Model.LoraConfigs {
		if namesHead(&l.LoRASpec) {
			refuse(fmt.Sprintf("model.lora_configs.%d.target_modules", i), ofTheHead,
				"leave it out, or sample with another engine, also with --engine cpu")
		}
		if halfOfExperts(l.TargetParameters) {
			refuse(fmt.Sprintf("model.lora_configs.%d.target_parameters", i), ofHalf,
				"name both, or sample with another engine, also with --engine cpu")
		}
	}
	if c.Method.Recomputes {
		return all
	}
	return append(all, config.ChangedSampling(c, isBiased, unbias)...)
}

// ofHalf is said of adapters that vLLM would leave out.
const ofHalf = "an adapter of one tensor of experts: vLLM takes gate_up_proj and down_proj together"

// ofTheHead is said of adapters of lm_head. Servers take them for some architectures, and nobody has tried
// them here.
const ofTheHead = "an adapter of the output head (lm_head), which servers do not take for every model"

const amongArguments = "a credential among the arguments of a program, which others can read"

// isSecret reports whether an argument holds a secret by its name, such as hf_token or api-key. Arguments
// that count tokens end in the plural.
func isSecret(name string) bool {
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '_' })
	return len(words) > 0 && slices.Contains([]string{"key", "password", "secret", "token"}, strings.ToLower(words[len(words)-1]))
}

// What is said of parameters that change the distribution of tokens that are trained on.
const (
	isBiased = "the server's log-probabilities are then not those of the model"
	unbias   = ", or let the trainer compute them: algorithm.rollout_correction.bypass_mode: false"
)
