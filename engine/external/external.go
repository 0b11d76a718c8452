// Package external samples words: from a model behind an OpenAI-compatible API, which takes and gives text alone.
package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/wire/openai"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Samplers.Register("external",
		"A model behind an OpenAI-compatible API of text (model.external_model), for modes bench and explore to a file. The tokenizer and "+
			"the chat template of model.model_path write its replies as tokens, and reading these must give the reply back. Experiences have "+
			"source external:MODEL, no log-probabilities, and versions -1.",
		func() engine.SamplerOpener { return &plugin{} })
}

// plugin is the sampler plug-in.
type plugin struct{}

// OpenSampler implements engine.SamplerOpener. It sends nothing.
func (*plugin) OpenSampler(_ context.Context, spec engine.SamplerSpec) (trinity.Sampler, error) {
	e := spec.Service.External
	client := &openai.Client{BaseURL: e.Address, Key: e.Key, Timeout: e.Timeout, Retries: e.Retries}
	if e.Model == "" {
		return nil, errors.New("external: no model is named: set model.external_model.model_name")
	}
	if _, err := client.Address("chat/completions"); err != nil {
		return nil, fmt.Errorf("model.external_model.base_url: %w", err)
	}
	return &sampler{asker: openai.Asker{
		Client: client, Name: e.Model, KeyEnv: e.KeyEnv, MaxRequests: e.MaxRequests, MaxTokens: e.MaxTokens,
	}}, nil
}

// PlanMemory implements engine.SamplerOpener: the weights are elsewhere.
func (*plugin) PlanMemory(engine.SamplerSpec) ([]engine.MemoryPart, error) {
	return []engine.MemoryPart{}, nil
}

// Describe implements engine.SamplerOpener.
func (*plugin) Describe() string { return "an API of text over HTTP" }

// Reads implements config.SharedKeys.
func (*plugin) Reads(*config.Settled) map[string]string {
	const decides = "the API decides it"
	keys := map[string]string{"cluster": "the API is elsewhere", "ignore_validator_suggestions": "there is no GPU memory check",
		"model.trust_remote_code": decides, "algorithm.enable_router_replay": "the API returns no experts"}
	for _, key := range []string{
		"base_urls", "api_key", "tensor_parallel_size", "data_parallel_size", "pipeline_parallel_size", "enable_expert_parallel",
		"gpu_memory_utilization", "weight_sync_buffer_size", "extra_engine_args", "use_v1", "enforce_eager", "enable_prefix_caching",
		"enable_chunked_prefill", "enable_runtime_lora_updating", "dtype", "enable_log_requests", "trust_remote_code", "base_port", "seed",
		"speculate", "kv_across_versions",
	} {
		keys["explorer.rollout_model."+key] = decides
	}
	return keys
}

// Refuses implements config.SharedKeys.
func (*plugin) Refuses(s *config.Settled) (all []config.Refusal) {
	const (
		model     = "explorer.rollout_model"
		noExperts = "the experts of tokens, which the API does not return"
		notTaken  = "what the API does not take"
		takes     = "leave it out: it takes temperature, top_p and max_response_tokens"
	)
	refuse := func(key, what, hint string) { all = append(all, config.Refusal{Key: key, What: what, Hint: hint}) }
	m := &s.Explorer.RolloutModel
	if s.Trains || s.Mode == "serve" || s.Explores && s.Buffer.TrainerInput.ExperienceBuffer.StorageType != "file" {
		refuse(model+".engine_type", "a model behind an API of text in mode "+s.Mode+
			", whose rollouts are token ids with log-probabilities, which such an API neither takes nor gives",
			"name a server of vLLM, SGLang or llama.cpp by engine_type and base_urls; external is for mode bench, and for mode "+
				"explore with storage_type file")
	}
	if len(s.Model.LoraConfigs) > 0 {
		refuse("model.lora_configs", "an adapter of a model behind an API", "leave it out")
	}
	if m.EnableReturnRoutedExperts {
		refuse(model+".enable_return_routed_experts", noExperts, "leave it out")
	}
	if s.Algorithm.EnableRouterReplay && s.Explores {
		refuse("algorithm.enable_router_replay", noExperts, "leave it out")
	}
	if m.Quantization != "" {
		refuse(model+".quantization", "a quantization of a model behind an API", "leave it out")
	}
	for _, k := range []struct {
		name string
		set  bool
	}{
		{"top_k", *m.TopK > 0}, {"repetition_penalty", *m.RepetitionPenalty != 1}, {"min_response_tokens", *m.MinResponseTokens > 1},
		{"ignore_eos", m.IgnoreEos},
	} {
		if k.set {
			refuse(s.Inherited(model, k.name), notTaken, takes)
		}
	}
	for _, t := range s.Data.Tasksets {
		if *t.RolloutArgs.TopK > 0 && (t.Eval || s.Explores) {
			refuse(s.Inherited(t.Key+".rollout_args", "top_k"), notTaken, takes)
		}
		if t.Format.ReplyPrefix != "" && (t.Eval || s.Explores) {
			refuse(t.Key+".format.reply_prefix", "a reply that begins with a given text, which the API cannot continue", "leave it out")
		}
	}
	return all
}

// sampler asks the model for words.
type sampler struct{ asker openai.Asker }

// errTokens is of a rollout that asks with tokens.
var errTokens = errors.New("a model behind an API of text takes messages alone, and this workflow asks with tokens: one turn of a " +
	"chat works (simple_workflow, math_workflow), several turns, a reply prefix and completions do not")

// Sample implements trinity.Sampler. It scores no tokens: a call that only asks for that gets nothing.
func (s *sampler) Sample(ctx context.Context, prompt trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	if err := engine.CheckPrompt(&prompt, "a model behind an API of text (external)"); err != nil {
		return nil, err
	}
	if p.ScorePrompt {
		return nil, nil
	}
	if prompt.Messages == nil {
		return nil, &trinity.RolloutError{Kind: trinity.FailedModel, Err: errTokens}
	}
	q := openai.Request{Model: s.asker.Name, Messages: prompt.Messages, Tools: prompt.Tools, Temperature: &p.Temperature}
	if p.MaxTokens > 0 {
		q.MaxTokens = &p.MaxTokens
	}
	if p.TopP > 0 && p.TopP < 1 {
		q.TopP = &p.TopP
	}
	if len(p.Stop) > 0 {
		q.Stop, _ = json.Marshal(p.Stop) // texts can be marshalled
	}
	out := make([]trinity.Completion, max(1, p.N))
	for i := range out {
		m, finish, err := s.asker.Reply(ctx, &q)
		if err != nil {
			return nil, err
		}
		out[i] = trinity.Completion{Words: &m, Source: "external:" + s.asker.Name, FinishReason: finish, Versions: [2]int64{-1, -1}}
	}
	return out, nil
}
