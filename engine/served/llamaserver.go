package served

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/wire/openai"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Samplers.Register("llama_server",
		"llama.cpp's servers that run already (explorer.rollout_model.base_urls). They take no new weights, so they serve modes bench and "+
			"serve, and mode explore for an archive.",
		func() engine.SamplerOpener { return &llamaServer{arguments: defaults()} })
}

// llamaServer is the plug-in.
type llamaServer struct {
	arguments `yaml:",inline"`
}

// OpenSampler implements engine.SamplerOpener.
func (l *llamaServer) OpenSampler(ctx context.Context, spec engine.SamplerSpec) (trinity.Sampler, error) {
	if spec.LoRA != nil {
		return nil, errors.New("llama-server gets no adapter from a run: start it with --lora, and leave out model.lora_configs")
	}
	return l.open(ctx, spec, nil, llamaKind{})
}

// PlanMemory implements engine.SamplerOpener.
func (*llamaServer) PlanMemory(engine.SamplerSpec) ([]engine.MemoryPart, error) { return none(), nil }

// Describe implements engine.SamplerOpener.
func (*llamaServer) Describe() string { return overHTTP }

// Reads implements config.SharedKeys.
func (*llamaServer) Reads(*config.Settled) map[string]string { return sharedKeys() }

// Refuses implements config.SharedKeys.
func (*llamaServer) Refuses(c *config.Settled) []config.Refusal {
	all := refusals(c, false)
	if c.Explores && c.Explorer.RolloutModel.IgnoreEos {
		all = append(all, config.Refusal{Key: "explorer.rollout_model.ignore_eos",
			What: "ignore_eos for tokens that are trained on: this server takes the probability of the token away", Hint: "leave it out"})
	}
	return all
}

type llamaKind struct{}

// llamaEndpoint is a server of llama.cpp.
type llamaEndpoint struct {
	client *openai.Client
	info   about
}

// greet implements kind.
func (llamaKind) greet(ctx context.Context, client *openai.Client) (endpoint, error) {
	var props struct {
		BuildInfo string `json:"build_info"`
		Settings  struct {
			Length int `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	if err := client.Call(ctx, "/props", nil, &props); err != nil {
		return nil, err
	}
	return &llamaEndpoint{client: client, info: about{
		product: "llama-server " + props.BuildInfo, length: props.Settings.Length,
		flags: flags{ids: "update llama.cpp", logprobs: "update llama.cpp", temperature: "update llama.cpp"},
	}}, nil
}

func (l *llamaEndpoint) about() about { return l.info }

// tokenize implements endpoint.
func (l *llamaEndpoint) tokenize(ctx context.Context, text string) ([]int32, error) {
	var reply struct{ Tokens []int32 }
	err := l.client.Call(ctx, "/tokenize", map[string]any{"content": text, "add_special": false}, &reply)
	return reply.Tokens, err
}

// llamaAsked is a request of /completion.
type llamaAsked struct {
	CachePrompt   bool         `json:"cache_prompt"`
	Bias          [][2]float32 `json:"logit_bias,omitzero"`        // token ids with what is added to their logits
	Frequency     float32      `json:"frequency_penalty,omitzero"` // this and Presence count the last 64 tokens, also of the prompt
	IgnoreEOS     bool         `json:"ignore_eos,omitzero"`
	MinP          float32      `json:"min_p"`
	Predict       int          `json:"n_predict"`
	Presence      float32      `json:"presence_penalty,omitzero"`
	Probs         int          `json:"n_probs"`
	AfterSampling bool         `json:"post_sampling_probs"`
	Prompt        []int32      `json:"prompt"`
	RepeatPenalty float32      `json:"repeat_penalty"`
	ReturnTokens  bool         `json:"return_tokens"`
	Samplers      []string     `json:"samplers"`
	Seed          uint32       `json:"seed"`
	Stop          []string     `json:"stop,omitzero"`
	Temperature   float32      `json:"temperature"`
	TopK          int          `json:"top_k"` // 0 is all
	TopP          float32      `json:"top_p"`
}

// llamaProb is a token with its log-probability at temperature 1, or its probability after sampling.
type llamaProb struct {
	ID          int32       `json:"id"`
	Logprob     *float32    `json:"logprob"`
	Prob        *float64    `json:"prob"`
	TopLogprobs []llamaProb `json:"top_logprobs"`
	TopProbs    []llamaProb `json:"top_probs"`
}

func (p *llamaProb) value() float32 {
	if p.Prob != nil {
		return float32(math.Log(*p.Prob))
	}
	return nats(p.Logprob)
}

// sample implements endpoint.
func (l *llamaEndpoint) sample(ctx context.Context, q *query) (*answer, error) {
	r := &llamaAsked{
		CachePrompt: true, IgnoreEOS: q.IgnoreEOS, MinP: q.MinP, Predict: q.MaxTokens, Probs: max(1, q.TopLogprobs), Prompt: q.prompt,
		// Before sampling, log-probabilities are those of temperature 1.
		AfterSampling: q.Temperature != 0 && q.Temperature != 1,
		RepeatPenalty: orOne(q.RepetitionPenalty), ReturnTokens: true, Samplers: []string{"penalties", "top_k", "top_p", "min_p", "temperature"},
		Presence: q.PresencePenalty, Frequency: q.FrequencyPenalty,
		Seed: seed32(q.Seed), Stop: q.Stop, Temperature: q.Temperature, TopK: max(0, q.TopK), TopP: orOne(q.TopP),
	}
	for _, token := range slices.Sorted(maps.Keys(q.LogitBias)) {
		r.Bias = append(r.Bias, [2]float32{float32(token), q.LogitBias[token]})
	}
	var reply struct {
		Tokens    []int32     `json:"tokens"`
		Probs     []llamaProb `json:"completion_probabilities"`
		StopType  string      `json:"stop_type"`
		Evaluated int         `json:"tokens_evaluated"`
	}
	if err := l.client.Call(ctx, "/completion", r, &reply); err != nil {
		return nil, err
	}
	a := &answer{tokens: reply.Tokens, promptLen: reply.Evaluated, finish: "stop"}
	if reply.StopType == "limit" {
		a.finish = "length"
	}
	for i := range reply.Probs {
		p := &reply.Probs[i]
		var top []trinity.TokenLogprob
		for _, x := range slices.Concat(p.TopLogprobs, p.TopProbs) {
			top = append(top, trinity.TokenLogprob{Token: x.ID, Logprob: x.value()})
		}
		if err := a.place(p.ID, p.value(), top, q.TopLogprobs); err != nil {
			return nil, err
		}
	}
	a.cut(q)
	return a, nil
}

// cut ends an answer at the first stop token, which this server does not know.
func (a *answer) cut(q *query) {
	stops := q.stops()
	for i := max(0, q.MinTokens-1); i < len(a.tokens); i++ {
		if slices.Contains(stops, a.tokens[i]) {
			n := i + 1
			a.tokens, a.finish = a.tokens[:n], "stop"
			a.logprobs, a.top = a.logprobs[:min(n, len(a.logprobs))], a.top[:min(n, len(a.top))]
			return
		}
	}
}

// seed32 folds a seed into the bits that this server takes. All ones would mean any seed.
func seed32(seed uint64) uint32 {
	if folded := uint32(seed) ^ uint32(seed>>32); folded != math.MaxUint32 {
		return folded
	}
	return 0
}

// load implements endpoint.
func (*llamaEndpoint) load(context.Context, string, string, bool) error {
	return errors.New("it takes no new weights: to train with servers, use another kind of them")
}

// has implements endpoint. The server has the weights with which it was started.
func (*llamaEndpoint) has(context.Context, string) (bool, error) { return true, nil }

// release implements endpoint.
func (*llamaEndpoint) release(context.Context) {}
