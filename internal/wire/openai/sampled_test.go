package openai

import (
	"encoding/json"
	"fmt"
	"testing"
)

func TestSampledReadsEveryForm(t *testing.T) {
	for text, want := range map[string]string{
		`{"token_ids": [7, 8], "logprobs": {"tokens": ["a", "b"], "token_logprobs": [-1, -2]}}`:  "[a b] [-1 -2] [7 8]",
		`{"logprobs": {"tokens": ["token_id:7", "token_id:8"], "token_logprobs": [null, -2]}}`:   "[token_id:7 token_id:8] [NaN -2] [7 8]",
		`{"sglext": {"output_ids": [7]}, "logprobs": {"tokens": ["a"], "token_logprobs": [-1]}}`: "[a] [-1] [7]",
		`{"logprobs": {"content": [{"id": 7, "token": "a", "logprob": -1}]}}`:                    "[a] [-1] [7]",
		`{"logprobs": {"content": [{"token": "a", "logprob": -1}, {"token": "token_id:8"}]}}`:    "[a token_id:8] [-1 0] []",
		`{"token_ids": [7, 8]}`: "[] [] [7 8]",
		`{"token_ids": [7, 8], "logprobs": {"tokens": ["a"], "token_logprobs": [-1]}}`: "[a] [-1] []",
		`{"logprobs": {"tokens": ["a", "b"], "token_logprobs": [-1]}}`:                 "1 token_logprobs for 2 tokens",
	} {
		var c Choice
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
		got := ""
		if s, err := c.Sampled(); err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprint(s.Names, s.Logprobs, s.IDs)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
