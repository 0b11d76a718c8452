package served

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/internal/wire/openai"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Samplers.Register("vllm",
		"vLLM servers: the run starts explorer.rollout_model.engine_num of them, or they run already (base_urls), as may servers with the same "+
			"API, such as mode serve. Of those, training needs --logprobs-mode processed_logprobs; new weights need VLLM_SERVER_DEV_MODE=1.",
		func() engine.SamplerOpener { return newVLLM() })
}

// vllmKind is what the run knows of its vLLM servers.
type vllmKind struct {
	model string // "" is the first that a server lists
	keep  bool   // the KV cache outlives its weights
	lora  bool
	// experts says that adapters may be of experts, in PEFT's form of stacked tensors. It is told with each.
	experts bool
	tied    bool // the model's head is its embedding
	files   *fileServer
}

// vllmServer is a server of vLLM, or one with its API.
type vllmServer struct {
	liveServer
	kind     vllmKind
	isVLLM   bool
	byTokens bool // it has /inference/v1/generate
}

// greet implements kind.
func (k vllmKind) greet(ctx context.Context, client *openai.Client) (endpoint, error) {
	s := &vllmServer{kind: k, liveServer: liveServer{
		client: client, model: k.model, lora: k.lora, nameEndpoints: []string{"/weight_info"}, pause: "/pause?mode=keep", resume: "/resume",
		fixed: "it takes no new weights: start it with VLLM_SERVER_DEV_MODE=1 in its environment",
	}}
	s.adapters = adapters{client: client, drop: "/v1/unload_lora_adapter", give: s.giveAdapter}
	if err := s.findModel(ctx); err != nil {
		return nil, err
	}
	s.info.product = "the server"
	var version struct{ Version string }
	switch err := client.Call(ctx, "/version", nil, &version); {
	case err == nil:
		s.isVLLM, s.info.product = true, "vLLM "+version.Version
	case retry.IsTemporary(err):
		return nil, err
	}
	s.info.flags = flags{
		ids: "vLLM gives them from 0.10.2 on", logprobs: "start it with --max-logprobs 20",
		temperature: "start it with --logprobs-mode processed_logprobs",
	}
	if k.lora {
		if err := s.findAdapters(ctx); err != nil {
			return nil, err
		}
	}
	return s, s.findTokens(ctx)
}

// findModel finds the name of the model, and the longest sequence.
func (s *vllmServer) findModel(ctx context.Context) error {
	var list openai.Models
	if err := s.client.Call(ctx, "/v1/models", nil, &list); err != nil {
		return err
	}
	for _, m := range list.Data {
		if s.model == "" || s.model == m.ID {
			s.model, s.info.length = m.ID, m.MaxModelLen
			return nil
		}
	}
	return fmt.Errorf("%s does not serve the model %q of engine_args", s.client.BaseURL, s.model)
}

// findTokens finds out whether the server has the endpoint for tokens, which also tells the weights
// of each token.
func (s *vllmServer) findTokens(ctx context.Context) error {
	if !s.isVLLM {
		return nil
	}
	q := &query{prompt: []int32{0}, SamplingParams: trinity.SamplingParams{MaxTokens: 1}}
	_, err := s.generate(ctx, q)
	if status := statusOf(err); status == http.StatusForbidden || status == http.StatusNotFound || status == http.StatusMethodNotAllowed {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s at %s: %w", s.info.product, s.client.BaseURL, err)
	}
	s.byTokens = true
	return nil
}

// statusOf returns the status of a refused request, 0 if there was another error or none.
func statusOf(err error) int {
	if status := (*retry.StatusError)(nil); errors.As(err, &status) {
		return status.Code
	}
	return 0
}

// name returns the name of the model, or of its adapter, that answers a query.
func (s *vllmServer) name(q *query) string { return cmp.Or(s.adapters.of(q), s.model) }

func (s *vllmServer) sample(ctx context.Context, q *query) (*answer, error) {
	// Of tokens beside images, and of experts, it has no stream that tells all.
	if s.byTokens && (q.OnToken == nil || q.routed || len(q.images) > 0) {
		return s.generate(ctx, q)
	}
	return s.complete(ctx, q)
}

// span says which weights sampled the tokens from Start to End.
type span struct {
	Version string `json:"version"`
}

func names(spans []span) (all []string) {
	for _, s := range spans {
		all = append(all, s.Version)
	}
	return all
}

// usage counts the tokens of a request.
type usage struct {
	PromptTokens        int `json:"prompt_tokens"`
	PromptTokensDetails struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// count takes the usage of a reply.
func (a *answer) count(u usage) {
	a.promptLen, a.reused = u.PromptTokens, u.PromptTokensDetails.CachedTokens
}

// complete asks /v1/completions.
func (s *vllmServer) complete(ctx context.Context, q *query) (*answer, error) {
	r := struct {
		openai.Request
		ReturnWeightVersions bool `json:"return_weight_versions,omitzero"`
		RoutedFrom           int  `json:"routed_experts_prompt_start,omitzero"`
	}{Request: q.completion(), ReturnWeightVersions: s.isVLLM, RoutedFrom: q.routedFrom}
	r.Model = s.name(q)
	if s.isVLLM && q.OnToken != nil && !q.routed { // parts of a reply have no experts
		r.Stream, r.StreamOptions.IncludeUsage = true, true
		return s.stream(ctx, &r, q)
	}
	var reply vllmReply
	if err := s.client.Call(ctx, "/v1/completions", &r, &reply); err != nil {
		return nil, err
	}
	return reply.answer(q)
}

// vllmReply is the reply of /v1/completions, or one event of its stream.
type vllmReply struct {
	Choices []struct {
		openai.Choice
		PromptTokenIDs []int32 `json:"prompt_token_ids"`
		WeightVersions []span  `json:"weight_versions"`
		RoutedExperts  string  `json:"routed_experts"`
	}
	PromptTokenIDs []int32 `json:"prompt_token_ids"`
	Usage          usage
	Error          *openai.Error // in a stream
}

// answer reads a reply.
func (reply *vllmReply) answer(q *query) (*answer, error) {
	if len(reply.Choices) != 1 {
		return nil, wrongf("it returned %d replies", len(reply.Choices))
	}
	c := &reply.Choices[0]
	a, err := choice(&c.Choice, q.TopLogprobs)
	if err != nil {
		return nil, err
	}
	if a.prompt = c.PromptTokenIDs; a.prompt == nil {
		a.prompt = reply.PromptTokenIDs
	}
	a.weights, a.routed = names(c.WeightVersions), c.RoutedExperts
	a.count(reply.Usage)
	return a, nil
}

// vllmParams are the sampling parameters of /inference/v1/generate.
type vllmParams struct {
	sampling
	Detokenize bool   `json:"detokenize"`
	Logprobs   int    `json:"logprobs"`
	MaxTokens  int    `json:"max_tokens"`
	MinTokens  int    `json:"min_tokens,omitzero"`
	Prompt     *int   `json:"prompt_logprobs,omitzero"`
	Seed       uint64 `json:"seed"`
	TopK       int    `json:"top_k,omitzero"` // 0 is all
	RoutedFrom int    `json:"routed_experts_prompt_start,omitzero"`
}

// vllmGenerated is the reply of /inference/v1/generate.
type vllmGenerated struct {
	Choices []struct {
		TokenIDs       []int32 `json:"token_ids"`
		FinishReason   string  `json:"finish_reason"`
		WeightVersions []span  `json:"weight_versions"`
		RoutedExperts  string  `json:"routed_experts"`
		Logprobs       struct{ Content []vllmLogprob }
	}
	Placeholders   map[string][]placeholder          `json:"mm_placeholders"`
	PromptLogprobs []map[string]openai.PromptLogprob `json:"prompt_logprobs"`
	PromptTokenIDs []int32                           `json:"prompt_token_ids"`
	Usage          usage
}

// generated asks /inference/v1/generate, and if prompt is set for the log-probabilities of the prompt's own tokens and of as many
// likely ones.
func (v vllmTokens) generated(ctx context.Context, q *query, prompt *int) (*vllmGenerated, error) {
	r := struct {
		Model          string     `json:"model"`
		Parts          []vllmPart `json:"content_parts,omitzero"`
		TokenIDs       []int32    `json:"token_ids"`
		ReturnTokenIDs bool       `json:"return_token_ids"`
		Params         vllmParams `json:"sampling_params"`
	}{v.server.name(q), q.parts(), q.prompt, true, vllmParams{
		sampling: q.sampling(), Detokenize: len(q.Stop) > 0, Logprobs: q.TopLogprobs, MaxTokens: q.MaxTokens, MinTokens: q.least(),
		Prompt: prompt, Seed: q.Seed, TopK: max(0, q.TopK), RoutedFrom: q.routedFrom,
	}}
	if len(q.images) > 0 {
		r.TokenIDs = q.collapsed
	}
	reply := &vllmGenerated{}
	return reply, misplaced(q, v.server.client.Call(ctx, "/inference/v1/generate", &r, reply))
}

// generate samples over /inference/v1/generate.
func (s *vllmServer) generate(ctx context.Context, q *query) (*answer, error) {
	reply, err := vllmTokens{s}.generated(ctx, q, nil)
	if err != nil {
		return nil, err
	}
	if len(q.images) > 0 {
		if err := q.checkPlaces(reply.PromptTokenIDs, reply.Placeholders["image"]); err != nil {
			return nil, err
		}
	}
	if len(reply.Choices) != 1 {
		return nil, wrongf("it returned %d replies", len(reply.Choices))
	}
	c := &reply.Choices[0]
	a := &answer{
		tokens: c.TokenIDs, finish: c.FinishReason, prompt: reply.PromptTokenIDs, promptLen: reply.Usage.PromptTokens,
		reused: reply.Usage.PromptTokensDetails.CachedTokens, weights: names(c.WeightVersions),
		routed: c.RoutedExperts,
	}
	for _, l := range c.Logprobs.Content {
		var top []trinity.TokenLogprob
		for _, x := range l.TopLogprobs {
			top = append(top, trinity.TokenLogprob{Token: x.id(), Logprob: nats(x.Logprob)})
		}
		if err := a.place(l.id(), nats(l.Logprob), top, q.TopLogprobs); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// vllmLogprob is a token with its log-probability. Older servers write its id as a text.
type vllmLogprob struct {
	TokenID     *int32        `json:"token_id"`
	Token       string        `json:"token"`
	Logprob     *float32      `json:"logprob"`
	TopLogprobs []vllmLogprob `json:"top_logprobs"`
}

func (l *vllmLogprob) id() int32 {
	if l.TokenID != nil {
		return *l.TokenID
	}
	return openai.TokenID(l.Token)
}
