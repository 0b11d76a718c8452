package served

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/internal/wire/openai"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Samplers.Register("sglang",
		"SGLang servers: the run starts explorer.rollout_model.engine_num of them, or they run already (base_urls). They take new weights "+
			"from a directory that they see. A server honours seeds with --enable-deterministic-inference.",
		func() engine.SamplerOpener { return newSGLang() })
}

// sglangKind is what the run knows of its SGLang servers.
type sglangKind struct{ lora, experts bool }

// untriedExperts is said of adapters of experts.
const untriedExperts = "adapters of experts, which nobody has tried with SGLang"

// sglangServer is a server of SGLang.
type sglangServer struct {
	liveServer
	layout sglangLayout
}

// sglangLayout is how a server divides the model.
type sglangLayout struct {
	Device   string
	DType    string
	Tensor   int `json:"tp_size"`
	Pipeline int `json:"pp_size"`
	Data     int `json:"dp_size"`
}

// greet implements kind.
func (k sglangKind) greet(ctx context.Context, client *openai.Client) (endpoint, error) {
	s := &sglangServer{liveServer: liveServer{
		client: client, lora: k.lora, nameEndpoints: []string{"/model_info", "/get_model_info"},
		pause: "/pause_generation", resume: "/continue_generation",
	}}
	s.adapters = adapters{client: client, drop: "/unload_lora_adapter", give: s.giveAdapter}
	var info struct {
		Version       string
		ContextLength int  `json:"context_length"`
		EnableLoRA    bool `json:"enable_lora"`
		MaxLoRARank   int  `json:"max_lora_rank"`
		sglangLayout
	}
	if err := s.ask(ctx, &info, "/server_info", "/get_server_info"); err != nil {
		return nil, err
	}
	s.info = about{product: "SGLang " + info.Version, length: info.ContextLength, flags: flags{
		ids: "update SGLang", logprobs: "update SGLang", temperature: "unset SGLANG_RETURN_ORIGINAL_LOGPROB in its environment",
	}}
	switch {
	case !info.EnableLoRA:
		s.info.noLoRA = sglangLoRA
	case k.experts:
		s.info.noLoRA = "model.lora_configs has " + untriedExperts
	}
	s.info.rank, s.layout = info.MaxLoRARank, info.sglangLayout
	var list openai.Models
	if err := client.Call(ctx, "/v1/models", nil, &list); retry.IsTemporary(err) {
		return nil, err
	}
	for _, m := range list.Data {
		s.info.length = cmp.Or(s.info.length, m.MaxModelLen)
	}
	return s, nil
}

// sglangLoRA starts a server that takes adapters.
const sglangLoRA = "start it with --enable-lora and --max-lora-rank"

// sglangParams are the sampling parameters of /generate.
type sglangParams struct {
	sampling
	MaxNewTokens      int    `json:"max_new_tokens"`
	MinNewTokens      int    `json:"min_new_tokens,omitzero"`
	NoStopTrim        bool   `json:"no_stop_trim"`
	SamplingSeed      uint64 `json:"sampling_seed"`
	SkipSpecialTokens bool   `json:"skip_special_tokens"`
	TopK              int    `json:"top_k"`
}

// sample implements endpoint.
func (s *sglangServer) sample(ctx context.Context, q *query) (*answer, error) {
	r := struct {
		InputIDs       []int32      `json:"input_ids"`
		Params         sglangParams `json:"sampling_params"`
		ReturnLogprob  bool         `json:"return_logprob"`
		TopLogprobsNum int          `json:"top_logprobs_num,omitzero"`
		LoraPath       string       `json:"lora_path,omitzero"`
		ReturnRouted   bool         `json:"return_routed_experts,omitzero"`
		RoutedFrom     int          `json:"routed_experts_start_len,omitzero"`
	}{InputIDs: q.prompt, ReturnRouted: q.routed, RoutedFrom: q.routedFrom, ReturnLogprob: true, TopLogprobsNum: q.TopLogprobs,
		Params: sglangParams{
			sampling: q.sampling(), MaxNewTokens: q.MaxTokens, MinNewTokens: q.least(), NoStopTrim: true, SamplingSeed: q.Seed,
			TopK: cmp.Or(max(0, q.TopK), -1),
		}}
	r.LoraPath = s.adapters.of(q)
	var reply struct {
		OutputIDs []int32 `json:"output_ids"`
		Meta      struct {
			FinishReason  struct{ Type, Message string } `json:"finish_reason"`
			PromptTokens  int                            `json:"prompt_tokens"`
			CachedTokens  int                            `json:"cached_tokens"`
			WeightVersion string                         `json:"weight_version"`
			Versions      []span                         `json:"weight_versions"`
			Logprobs      []sglangLogprob                `json:"output_token_logprobs"`
			Top           [][]sglangLogprob              `json:"output_top_logprobs"`
			RoutedExperts string                         `json:"routed_experts"`
		} `json:"meta_info"`
	}
	if err := s.client.Call(ctx, "/generate", &r, &reply); err != nil {
		return nil, err
	}
	m := &reply.Meta
	a := &answer{finish: m.FinishReason.Type, promptLen: m.PromptTokens, reused: m.CachedTokens, weights: names(m.Versions),
		routed: m.RoutedExperts, bare: true}
	if a.weights == nil && m.WeightVersion != "" {
		a.weights, a.last = []string{m.WeightVersion}, true
	}
	// A stop token has a log-probability, and some versions leave it out of the ids.
	if a.tokens = reply.OutputIDs; len(m.Logprobs) == len(a.tokens)+1 && a.finish == "stop" {
		a.tokens = append(a.tokens, m.Logprobs[len(a.tokens)].token)
	}
	for _, l := range m.Logprobs {
		if err := a.place(l.token, nats(l.logprob), nil, 0); err != nil {
			return nil, err
		}
	}
	for _, at := range m.Top {
		var top []trinity.TokenLogprob
		for _, x := range at {
			top = append(top, trinity.TokenLogprob{Token: x.token, Logprob: nats(x.logprob)})
		}
		a.top = append(a.top, mostLikely(top, q.TopLogprobs))
	}
	return a, nil
}

// scores implements scorer.
func (*sglangServer) scores(bool) bool { return true }

// score implements scorer.
func (s *sglangServer) score(ctx context.Context, tokens []int32) ([]float32, error) {
	r := struct {
		InputIDs      []int32      `json:"input_ids"`
		Params        sglangParams `json:"sampling_params"`
		ReturnLogprob bool         `json:"return_logprob"`
		From          int          `json:"logprob_start_len"`
		LoraPath      string       `json:"lora_path,omitzero"`
	}{InputIDs: tokens, ReturnLogprob: true, Params: sglangParams{
		sampling: sampling{RepetitionPenalty: 1, Temperature: 1, TopP: 1}, MaxNewTokens: 1, TopK: -1,
	}}
	if s.lora {
		r.LoraPath = s.adapters.current()
	}
	var reply struct {
		Meta struct {
			Logprobs []sglangLogprob `json:"input_token_logprobs"`
		} `json:"meta_info"`
	}
	if err := s.client.Call(ctx, "/generate", &r, &reply); err != nil {
		return nil, err
	}
	if len(reply.Meta.Logprobs) != len(tokens) {
		return nil, errors.New("it returns no log-probabilities of the prompt's tokens (input_token_logprobs)")
	}
	logprobs := make([]float32, 0, len(tokens)-1)
	for i, l := range reply.Meta.Logprobs[1:] {
		if l.token != tokens[i+1] {
			return nil, fmt.Errorf("it returns the log-probability of token %d for token %d of the prompt", l.token, tokens[i+1])
		}
		if l.logprob == nil {
			return nil, fmt.Errorf("it returns no log-probability of token %d of the prompt", i+1)
		}
		logprobs = append(logprobs, *l.logprob)
	}
	return logprobs, nil
}

// sglangLogprob is [log-probability, token id, text]. The first token of a prompt has null.
type sglangLogprob struct {
	logprob *float32
	token   int32
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *sglangLogprob) UnmarshalJSON(data []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	if len(parts) < 2 {
		return fmt.Errorf("%s is no log-probability with its token", data)
	}
	return errors.Join(json.Unmarshal(parts[0], &l.logprob), json.Unmarshal(parts[1], &l.token))
}

// sglangDone is the reply to what changes the server.
type sglangDone struct {
	Success      bool
	Message      string
	ErrorMessage string `json:"error_message"`
}

func (d *sglangDone) err() error {
	if d.Success {
		return nil
	}
	return errors.New(cmp.Or(d.Message, d.ErrorMessage, "it does not say why it failed"))
}

// load implements endpoint.
func (s *sglangServer) load(ctx context.Context, dir, name string, _ bool) error {
	body := map[string]any{"model_path": dir, "weight_version": name, "flush_cache": true, "abort_all_requests": false}
	return s.whilePaused(ctx, retracting, func() error { return s.does("/update_weights_from_disk", body)(ctx) })
}

// retracting pauses a server whose requests in flight are computed again with the new weights.
var retracting = map[string]string{"mode": "retract"}

// giveAdapter gives the server an adapter.
func (s *sglangServer) giveAdapter(ctx context.Context, dir, name string) error {
	var done sglangDone
	if err := s.client.Call(ctx, "/load_lora_adapter", map[string]string{"lora_name": name, "lora_path": dir}, &done); err != nil {
		return fmt.Errorf("it takes no adapter: %s: %w", sglangLoRA, err)
	}
	return done.err()
}

// sleep implements sleeper.
func (s *sglangServer) sleep(ctx context.Context) error {
	return s.occupy(ctx, "/release_memory_occupation", partCache, partWeights)
}

// wake implements sleeper.
func (s *sglangServer) wake(ctx context.Context, p part) error {
	return s.occupy(ctx, "/resume_memory_occupation", p)
}

// occupy gives memory back, or takes it again.
func (s *sglangServer) occupy(ctx context.Context, endpoint string, parts ...part) error {
	err := s.client.Call(ctx, endpoint, map[string][]part{"tags": parts}, nil)
	if err != nil && !isGone(err) {
		err = fmt.Errorf("%w (it must be started with --enable-memory-saver and --enable-weights-cpu-backup)", err)
	}
	return err
}

// digests implements digester.
func (s *sglangServer) digests(ctx context.Context) (map[string]string, error) {
	var reply struct {
		Success bool
		Message string
		Ranks   []struct{ Checksums map[string]string }
	}
	if err := s.client.Call(ctx, "/weights_checker", map[string]string{"action": "checksum"}, &reply); err != nil {
		return nil, err
	}
	if !reply.Success {
		return nil, fmt.Errorf("weights_checker: %s", reply.Message)
	}
	all := map[string]string{}
	for rank, of := range reply.Ranks {
		for name, digest := range of.Checksums {
			all[fmt.Sprintf("rank %d: %s", rank, name)] = digest
		}
	}
	return all, nil
}

// reset implements resetter.
func (s *sglangServer) reset(ctx context.Context) error {
	return s.does("/weights_checker", map[string]string{"action": "reset_tensors"})(ctx)
}
