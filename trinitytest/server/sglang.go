package server

import (
	"net/http"
	"slices"

	"github.com/trinity-go/trinity"
)

// SGLang starts a fake of SGLang 0.5.23 that answers with a sampler.
func SGLang(t Host, s trinity.Sampler, o Options) *Fake {
	t.Helper()
	f := &Fake{sampler: s, vocab: o.Vocab, experts: o.Routed, weights: "default"}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /server_info", func(w http.ResponseWriter, _ *http.Request) {
		info := map[string]any{"version": "0.5.23", "context_length": nil, "enable_lora": o.LoRA, "max_lora_rank": nil,
			"tp_size": max(1, f.Ranks), "pp_size": 1, "dp_size": 1, "dtype": "auto", "device": "cpu"}
		if o.MaxRank > 0 {
			info["max_lora_rank"] = o.MaxRank
		}
		f.send(w, info)
	})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		models := []any{map[string]any{"id": "tiny", "max_model_len": o.MaxLen}}
		for _, name := range f.Adapters() {
			models = append(models, map[string]any{"id": name, "parent": "tiny"})
		}
		f.send(w, map[string]any{"data": models})
	})
	if o.LoRA {
		done := func(w http.ResponseWriter, err error) {
			if err != nil {
				w.WriteHeader(http.StatusBadRequest)
				f.send(w, map[string]any{"success": false, "error_message": err.Error()})
				return
			}
			f.send(w, map[string]any{"success": true, "loaded_adapters": f.Adapters()})
		}
		mux.HandleFunc("POST /load_lora_adapter", f.changeAdapter(f.loadAdapter, done))
		mux.HandleFunc("POST /unload_lora_adapter", f.changeAdapter(f.dropAdapter, done))
	}
	f.tokenizes(mux, o, "prompt")
	mux.HandleFunc("GET /model_info", func(w http.ResponseWriter, _ *http.Request) {
		f.send(w, map[string]any{"model_path": "tiny", "weight_version": f.weightsName()})
	})
	mux.HandleFunc("POST /generate", f.sglangGenerate)
	mux.HandleFunc("POST /pause_generation", f.pause)
	mux.HandleFunc("POST /continue_generation", f.resume)
	mux.HandleFunc("POST /update_weights_from_disk", func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			ModelPath     string `json:"model_path"`
			WeightVersion string `json:"weight_version"`
		}
		if !read(w, r, &q) {
			return
		}
		if err := f.load(r.Context(), q.ModelPath); err != nil {
			f.send(w, map[string]any{"success": false, "message": err.Error()})
			return
		}
		f.call(q.WeightVersion)
		f.send(w, map[string]any{"success": true, "message": "Succeeded to update model weights."})
	})
	f.sglangDirect(t, mux)
	f.checker(mux, "/weights_checker", "reset_tensors", o, func(w http.ResponseWriter, sums map[string]string) {
		f.send(w, map[string]any{"success": true, "message": "", "ranks": []any{map[string]any{"checksums": sums}}})
	})
	if o.Sleeps {
		f.sglangSleep(mux)
	}
	return f.start(t, mux)
}

func (f *Fake) sglangGenerate(w http.ResponseWriter, r *http.Request) {
	var q struct {
		InputIDs        []int32 `json:"input_ids"`
		TopLogprobsNum  int     `json:"top_logprobs_num"`
		LogprobStartLen *int    `json:"logprob_start_len"`
		LoraPath        string  `json:"lora_path"`
		RoutedFrom      int     `json:"routed_experts_start_len"`
		Params          struct {
			IgnoreEOS         bool              `json:"ignore_eos"`
			MaxNewTokens      int               `json:"max_new_tokens"`
			MinNewTokens      int               `json:"min_new_tokens"`
			MinP              float32           `json:"min_p"`
			PresencePenalty   float32           `json:"presence_penalty"`
			FrequencyPenalty  float32           `json:"frequency_penalty"`
			LogitBias         map[int32]float32 `json:"logit_bias"`
			RepetitionPenalty float32           `json:"repetition_penalty"`
			SamplingSeed      int64             `json:"sampling_seed"`
			Stop              []string          `json:"stop"`
			StopTokenIDs      []int32           `json:"stop_token_ids"`
			Temperature       float32           `json:"temperature"`
			TopK              int               `json:"top_k"`
			TopP              float32           `json:"top_p"`
		} `json:"sampling_params"`
	}
	if !read(w, r, &q) {
		return
	}
	if q.LoraPath != "" && !slices.Contains(f.Adapters(), q.LoraPath) {
		refuse(w, http.StatusBadRequest, "The following requested LoRA adapters are not loaded: "+q.LoraPath)
		return
	}
	p := &q.Params
	s, err := f.complete(r.Context(), q.InputIDs, trinity.SamplingParams{
		IgnoreEOS: p.IgnoreEOS, MaxTokens: p.MaxNewTokens, MinP: p.MinP, MinTokens: p.MinNewTokens, RepetitionPenalty: p.RepetitionPenalty,
		PresencePenalty: p.PresencePenalty, FrequencyPenalty: p.FrequencyPenalty, LogitBias: p.LogitBias,
		Seed: uint64(p.SamplingSeed), Stop: p.Stop, StopTokens: p.StopTokenIDs, Temperature: p.Temperature, TopK: p.TopK, TopP: p.TopP,
		TopLogprobs: q.TopLogprobsNum, Adapter: q.LoraPath,
	})
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	var logprobs []any
	var top [][]any
	for i, value := range s.Logprobs {
		logprobs = append(logprobs, []any{f.told(value), s.Tokens[i], nil})
		if i < len(s.TopLogprobs) {
			var at []any
			for _, x := range s.TopLogprobs[i] {
				at = append(at, []any{f.told(x.Logprob), x.Token, nil})
			}
			top = append(top, at)
		}
	}
	var given []any
	if q.LogprobStartLen != nil && *q.LogprobStartLen == 0 {
		scores, err := f.score(r.Context(), q.InputIDs)
		if err != nil {
			refuse(w, http.StatusInternalServerError, err.Error())
			return
		}
		for i, l := range scores {
			if i == 0 {
				given = append(given, []any{nil, q.InputIDs[0], nil})
			}
			given = append(given, []any{l, q.InputIDs[i+1], nil})
		}
	}
	f.send(w, map[string]any{"text": "text", "output_ids": s.ids, "meta_info": map[string]any{
		"input_token_logprobs": given,
		"finish_reason":        map[string]any{"type": s.FinishReason}, "prompt_tokens": len(s.prompt), "weight_version": s.weights,
		"output_token_logprobs": logprobs, "output_top_logprobs": top,
		"routed_experts": f.routed(s, q.RoutedFrom, true),
	}})
}
