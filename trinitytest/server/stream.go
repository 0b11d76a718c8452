package server

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// stream writes a completion as events of one token each. A server that dies does so after the first.
func (f *Fake) stream(w http.ResponseWriter, q *vllmAsked, s *sampled, usage any) {
	event := func(v any) {
		data, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		_, _ = fmt.Fprintf(w, "data: %s\n\n", data) // the client reports a broken answer
		_ = http.NewResponseController(w).Flush()
	}
	for i := range s.Tokens {
		part := &sampled{}
		part.Tokens = s.Tokens[i : i+1]
		if s.ids != nil {
			part.ids = s.ids[i : i+1]
		}
		if i < len(s.Logprobs) {
			part.Logprobs = s.Logprobs[i : i+1]
		}
		if i < len(s.TopLogprobs) {
			part.TopLogprobs = s.TopLogprobs[i : i+1]
		}
		if i == 0 {
			part.prompt = s.prompt
		}
		choice := f.vllmChoice(q, part)
		if choice["finish_reason"] = nil; i == len(s.Tokens)-1 {
			choice["finish_reason"] = s.FinishReason
		}
		event(map[string]any{"choices": []any{choice}})
		if f.tells(Dies) {
			panic(http.ErrAbortHandler)
		}
		if f.OnEvent != nil {
			f.OnEvent(i)
		}
	}
	event(map[string]any{"choices": []any{}, "usage": usage})
	_, _ = fmt.Fprint(w, "data: [DONE]\n\n") // the client reports a broken answer
}
