package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/trinity-go/trinity"
)

// VLLM starts a fake of vLLM 0.33 that answers with a sampler.
func VLLM(t Host, s trinity.Sampler, o Options) *Fake {
	t.Helper()
	f := &Fake{sampler: s, vocab: o.Vocab, images: o.Images, experts: o.Routed, weights: "default"}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		models := []any{map[string]any{"id": "tiny", "max_model_len": o.MaxLen}}
		for _, name := range f.Adapters() {
			models = append(models, map[string]any{"id": name, "parent": "tiny"})
		}
		f.send(w, map[string]any{"data": models})
	})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { f.send(w, map[string]string{"version": "0.33.0"}) })
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {}) // 200
	mux.HandleFunc("POST /v1/completions", f.vllmCompletions)
	mux.HandleFunc("POST /inference/v1/generate", func(w http.ResponseWriter, r *http.Request) {
		if !o.Tokens {
			refuse(w, http.StatusForbidden, "start the server with --enable-scale-out")
			return
		}
		f.vllmGenerate(w, r)
	})
	if o.LoRA {
		f.vllmAdapters(mux, o)
	}
	if o.Develops {
		f.vllmControl(mux)
		mux.HandleFunc("GET /server_info", func(w http.ResponseWriter, _ *http.Request) { f.send(w, o.vllmConfig(max(1, f.Ranks))) })
		f.checker(mux, "/weight_checker", "reset", o, func(w http.ResponseWriter, sums map[string]string) {
			f.send(w, map[string]any{"status": "reset", "checksums": sums})
		})
	}
	if o.Fetches {
		f.vllmTransfer(t, mux)
	}
	if o.Sleeps {
		f.vllmSleep(mux)
	}
	f.tokenizes(mux, o, "prompt")
	return f.start(t, mux)
}

// vllmConfig is what a server in development mode tells of its start.
func (o *Options) vllmConfig(ranks int) map[string]any {
	config := map[string]any{
		"model_config":    map[string]any{"dtype": "torch.float32", "model": o.Model},
		"parallel_config": map[string]any{"tensor_parallel_size": ranks},
		"device_config":   map[string]any{"device": "cuda"}, "lora_config": nil, "weight_transfer_config": nil}
	if o.CPU {
		config["device_config"] = map[string]any{"device": "cpu"}
	}
	if o.Fetches {
		config["weight_transfer_config"] = map[string]any{"backend": "trinity_files"}
	}
	if o.LoRA {
		config["lora_config"] = map[string]any{"max_lora_rank": o.MaxRank, "enable_mixed_moe_lora_format": o.Mixed}
	}
	return map[string]any{"vllm_config": config}
}

// vllmAsked are the parameters of both endpoints.
type vllmAsked struct {
	Model             string            `json:"model"`
	Prompt            []int32           `json:"prompt"`
	PromptLogprobs    *int              `json:"prompt_logprobs"`
	IgnoreEOS         bool              `json:"ignore_eos"`
	Logprobs          *int              `json:"logprobs"`
	MaxTokens         int               `json:"max_tokens"`
	RoutedFrom        int               `json:"routed_experts_prompt_start"`
	MinP              float32           `json:"min_p"`
	MinTokens         int               `json:"min_tokens"`
	PresencePenalty   float32           `json:"presence_penalty"`
	FrequencyPenalty  float32           `json:"frequency_penalty"`
	LogitBias         map[int32]float32 `json:"logit_bias"`
	RepetitionPenalty float32           `json:"repetition_penalty"`
	Seed              int64             `json:"seed"` // more than 63 bits are an error
	Stop              []string          `json:"stop"`
	StopTokenIDs      []int32           `json:"stop_token_ids"`
	Temperature       float32           `json:"temperature"`
	TopK              int               `json:"top_k"`
	TopP              float32           `json:"top_p"`
	ReturnTokenIDs    bool              `json:"return_token_ids"`
	Stream            bool              `json:"stream"`
}

func (a *vllmAsked) params() trinity.SamplingParams {
	p := trinity.SamplingParams{
		IgnoreEOS: a.IgnoreEOS, MaxTokens: a.MaxTokens, MinP: a.MinP, MinTokens: a.MinTokens, RepetitionPenalty: a.RepetitionPenalty,
		PresencePenalty: a.PresencePenalty, FrequencyPenalty: a.FrequencyPenalty, LogitBias: a.LogitBias,
		Seed: uint64(a.Seed), Stop: a.Stop, StopTokens: a.StopTokenIDs, Temperature: a.Temperature, TopK: a.TopK, TopP: a.TopP,
	}
	if a.Logprobs != nil {
		p.TopLogprobs = *a.Logprobs
	}
	if a.Model != "tiny" {
		p.Adapter = a.Model
	}
	return p
}

// serves reports whether the server has a model, and refuses the request if not.
func (f *Fake) serves(w http.ResponseWriter, name string) bool {
	if name == "tiny" || slices.Contains(f.Adapters(), name) {
		return true
	}
	refuse(w, http.StatusNotFound, fmt.Sprintf("The model `%s` does not exist.", name))
	return false
}

// vllmAdapters adds the endpoints that change adapters.
func (f *Fake) vllmAdapters(mux *http.ServeMux, o Options) {
	done := func(w http.ResponseWriter, err error) {
		if err != nil {
			refuse(w, http.StatusNotFound, err.Error())
			return
		}
		_, _ = io.WriteString(w, "Success") // the client reports a broken answer
	}
	load := func(ctx context.Context, q adapterAsked) error {
		if q.Name != "" && adaptsExperts(q.Path) && (!o.Mixed || !q.Stacked) {
			return fmt.Errorf("while loading %s, expected target modules of each expert", q.Path)
		}
		return f.loadAdapter(ctx, q)
	}
	mux.HandleFunc("POST /v1/load_lora_adapter", f.changeAdapter(load, done))
	mux.HandleFunc("POST /v1/unload_lora_adapter", f.changeAdapter(f.dropAdapter, done))
}

func (f *Fake) vllmCompletions(w http.ResponseWriter, r *http.Request) {
	var q vllmAsked
	if !read(w, r, &q) {
		return
	}
	if !f.serves(w, q.Model) {
		return
	}
	s, err := f.complete(r.Context(), q.Prompt, q.params())
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	usage := map[string]any{"prompt_tokens": len(s.prompt)}
	if q.Stream {
		f.stream(w, &q, s, usage)
		return
	}
	choice := f.vllmChoice(&q, s)
	if q.PromptLogprobs != nil {
		if choice["prompt_logprobs"], err = f.vllmPromptLogprobs(r.Context(), q.Prompt); err != nil {
			refuse(w, http.StatusInternalServerError, err.Error())
			return
		}
	}
	f.send(w, map[string]any{"choices": []any{choice}, "usage": usage})
}

// vllmChoice writes a completion, or a part of one.
func (f *Fake) vllmChoice(q *vllmAsked, s *sampled) map[string]any {
	choice := map[string]any{"text": "text", "finish_reason": s.FinishReason, "prompt_token_ids": s.prompt}
	if routed := f.routed(s, q.RoutedFrom, false); routed != nil {
		choice["routed_experts"] = routed
	}
	if q.ReturnTokenIDs && s.ids != nil {
		choice["token_ids"] = s.ids
	}
	if q.Logprobs != nil && s.Logprobs != nil {
		choice["logprobs"] = f.vllmLogprobs(s)
	}
	return choice
}

// vllmPromptLogprobs scores a prompt. Its first token has no entry.
func (f *Fake) vllmPromptLogprobs(ctx context.Context, prompt []int32) ([]any, error) {
	logprobs, err := f.score(ctx, prompt)
	if logprobs == nil {
		return nil, err
	}
	all := []any{nil}
	for i, l := range logprobs {
		all = append(all, map[string]any{strconv.Itoa(int(prompt[i+1])): map[string]any{"logprob": l, "rank": 1}})
	}
	return all, err
}

// vllmLogprobs writes log-probabilities as /v1/completions does.
func (f *Fake) vllmLogprobs(s *sampled) map[string]any {
	name := func(t int32) string {
		if s.ids == nil {
			return "text"
		}
		return "token_id:" + strconv.Itoa(int(t))
	}
	var tokens []string
	var logprobs []*float32
	var top []map[string]float32
	for i := range s.Logprobs {
		logprobs = append(logprobs, f.told(s.Logprobs[i]))
		tokens = append(tokens, name(s.Tokens[i]))
		at := map[string]float32{}
		if i < len(s.TopLogprobs) {
			for _, x := range s.TopLogprobs[i] {
				at[name(x.Token)] = x.Logprob
			}
		}
		if _, known := at[name(s.Tokens[i])]; !known {
			at[name(s.Tokens[i])] = s.Logprobs[i]
		}
		top = append(top, at)
	}
	return map[string]any{"tokens": tokens, "token_logprobs": logprobs, "top_logprobs": top}
}

func (f *Fake) vllmGenerate(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Model          string
		TokenIDs       []int32   `json:"token_ids"`
		Parts          []part    `json:"content_parts"`
		SamplingParams vllmAsked `json:"sampling_params"`
	}
	if !read(w, r, &q) || !f.serves(w, q.Model) {
		return
	}
	q.SamplingParams.Model = q.Model
	prompt, places, status, err := f.expand(q.TokenIDs, q.Parts)
	if err != nil {
		refuse(w, status, err.Error())
		return
	}
	s, err := f.complete(r.Context(), prompt, q.SamplingParams.params())
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	type logprob struct {
		TokenID int32     `json:"token_id"`
		Logprob *float32  `json:"logprob,omitempty"`
		Top     []logprob `json:"top_logprobs"`
	}
	var content []logprob
	for i, value := range s.Logprobs {
		l := logprob{TokenID: s.Tokens[i], Logprob: f.told(value)}
		if i < len(s.TopLogprobs) {
			for _, x := range s.TopLogprobs[i] {
				l.Top = append(l.Top, logprob{TokenID: x.Token, Logprob: f.told(x.Logprob)})
			}
		}
		content = append(content, l)
	}
	reply := map[string]any{
		"prompt_token_ids": s.prompt, "usage": map[string]any{"prompt_tokens": len(s.prompt)},
		"choices": []any{map[string]any{
			"token_ids": s.ids, "finish_reason": s.FinishReason, "logprobs": map[string]any{"content": content},
			"routed_experts":  f.routed(s, q.SamplingParams.RoutedFrom, false),
			"weight_versions": []any{map[string]any{"version": s.weights, "start": 0, "end": len(s.ids)}},
		}},
	}
	if q.Parts != nil && !f.tells(NoPlaces) {
		reply["mm_placeholders"] = map[string]any{"image": places}
	}
	if q.SamplingParams.PromptLogprobs != nil {
		if reply["prompt_logprobs"], err = f.vllmPromptLogprobs(r.Context(), prompt); err != nil {
			refuse(w, http.StatusInternalServerError, err.Error())
			return
		}
	}
	f.send(w, reply)
}

// vllmControl adds the endpoints of a server in development mode.
func (f *Fake) vllmControl(mux *http.ServeMux) {
	mux.HandleFunc("POST /pause", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("mode") != "keep" {
			refuse(w, http.StatusBadRequest, "this fake freezes requests alone")
			return
		}
		f.pause(w, r)
	})
	mux.HandleFunc("POST /resume", f.resume)
	mux.HandleFunc("GET /is_paused", func(w http.ResponseWriter, _ *http.Request) {
		f.send(w, map[string]bool{"is_paused": f.paused.Load()})
	})
	mux.HandleFunc("POST /collective_rpc", func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Method string
			Kwargs struct {
				WeightsPath string `json:"weights_path"`
			}
		}
		if !read(w, r, &q) {
			return
		}
		if err := f.load(r.Context(), q.Kwargs.WeightsPath); q.Method != "reload_weights" || !f.isPaused() || err != nil {
			refuse(w, http.StatusInternalServerError, fmt.Sprintf("%s, paused %t: %v", q.Method, f.isPaused(), err))
			return
		}
		f.send(w, map[string]any{"results": []any{nil}})
	})
	mux.HandleFunc("POST /update_weight_version", func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			NewVersion string `json:"new_version"`
		}
		if read(w, r, &q) {
			f.call(q.NewVersion)
			f.send(w, map[string]any{"success": true, "new_version": q.NewVersion})
		}
	})
	mux.HandleFunc("GET /weight_info", func(w http.ResponseWriter, _ *http.Request) {
		f.send(w, map[string]string{"weight_version": f.weightsName()})
	})
	mux.HandleFunc("POST /reset_prefix_cache", func(w http.ResponseWriter, _ *http.Request) {
		f.send(w, map[string]bool{"success": !f.tells(KeepsCache)})
	})
}
