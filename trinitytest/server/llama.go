package server

import (
	"math"
	"net/http"

	"github.com/trinity-go/trinity"
)

// LlamaServer starts a fake of llama.cpp's server that answers with a sampler.
func LlamaServer(t Host, s trinity.Sampler, o Options) *Fake {
	t.Helper()
	f := &Fake{sampler: s, vocab: o.Vocab}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /props", func(w http.ResponseWriter, _ *http.Request) {
		f.send(w, map[string]any{"build_info": "b1-fake", "default_generation_settings": map[string]any{"n_ctx": o.MaxLen}})
	})
	mux.HandleFunc("POST /completion", f.llamaCompletion)
	f.tokenizes(mux, o, "content")
	return f.start(t, mux)
}

func (f *Fake) llamaCompletion(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Bias        [][2]float32 `json:"logit_bias"`
		Frequency   float32      `json:"frequency_penalty"`
		Presence    float32      `json:"presence_penalty"`
		IgnoreEOS   bool         `json:"ignore_eos"`
		MinP        float32      `json:"min_p"`
		Predict     int          `json:"n_predict"`
		Probs       int          `json:"n_probs"`
		After       bool         `json:"post_sampling_probs"`
		Prompt      []int32      `json:"prompt"`
		Repeat      float32      `json:"repeat_penalty"`
		Seed        uint32       `json:"seed"`
		Stop        []string     `json:"stop"`
		Temperature float32      `json:"temperature"`
		TopK        int          `json:"top_k"`
		TopP        float32      `json:"top_p"`
	}
	if !read(w, r, &q) {
		return
	}
	bias := map[int32]float32{}
	for _, b := range q.Bias {
		bias[int32(b[0])] = b[1]
	}
	s, err := f.complete(r.Context(), q.Prompt, trinity.SamplingParams{
		PresencePenalty: q.Presence, FrequencyPenalty: q.Frequency, LogitBias: bias,
		IgnoreEOS: q.IgnoreEOS, MaxTokens: q.Predict, MinP: q.MinP, RepetitionPenalty: q.Repeat, Seed: uint64(q.Seed), Stop: q.Stop,
		Temperature: q.Temperature, TopK: q.TopK, TopP: q.TopP, TopLogprobs: q.Probs,
	})
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	entry := func(token int32, logprob float32) map[string]any {
		switch {
		case f.told(logprob) == nil:
			return map[string]any{"id": token}
		case q.After:
			return map[string]any{"id": token, "prob": math.Exp(float64(logprob))}
		}
		return map[string]any{"id": token, "logprob": logprob}
	}
	var probs []any
	for i, value := range s.Logprobs {
		at := entry(s.Tokens[i], value)
		var top []any
		if i < len(s.TopLogprobs) {
			for _, x := range s.TopLogprobs[i] {
				top = append(top, entry(x.Token, x.Logprob))
			}
		}
		if at["top_logprobs"] = top; q.After {
			at["top_probs"] = top
			delete(at, "top_logprobs")
		}
		probs = append(probs, at)
	}
	stop := "eos"
	if s.FinishReason == "length" {
		stop = "limit"
	}
	f.send(w, map[string]any{
		"content": "text", "tokens": s.ids, "completion_probabilities": probs, "stop_type": stop, "tokens_evaluated": len(s.prompt),
	})
}
