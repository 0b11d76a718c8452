package tinker

import (
	"maps"
	"slices"
	"testing"

	"github.com/trinity-go/trinity/internal/wire/tinker"
)

func targets(ids []int64, shape ...int64) object {
	return object{"data": ids, "dtype": "int64", "shape": shape}
}

// Targets, draws and the last part of a prompt have the numbers of the whole prompt.
func TestScoresOfPrompts(t *testing.T) {
	c := serve(t, nil)
	whole := c.sampled(object{"base_model": "tiny", "topk_prompt_logprobs": 10})
	places := len(first) - 1
	likely := map[[2]int32]float32{} // by place and token
	for i, id := range whole.PromptTop.Tokens {
		likely[[2]int32{int32(i / 10), id}] = whole.PromptTop.Logprobs[i]
	}
	last := c.sampled(object{"base_model": "tiny", "prompt_logprobs_last_n": 2, "topk_prompt_logprobs": 1})
	for i, lp := range last.PromptLogprobs {
		if scored := i >= len(first)-2; scored && lp != whole.PromptLogprobs[i] || !scored && lp == lp ||
			!scored && last.PromptTop.Logprobs[i] != tinker.NoLogprob {
			t.Errorf("token %d: %v, %v; the whole prompt has %v", i, lp, last.PromptTop.Logprobs[i], whole.PromptLogprobs[i])
		}
	}
	dense := make([]int64, 2*places)
	for i := range dense {
		dense[i] = -1
	}
	dense[2*2], dense[2*4+1] = int64(first[3]), int64(whole.PromptTop.Tokens[10*5])
	sparse := object{"data": []int64{dense[4], dense[9]}, "dtype": "int64", "shape": []int{places, 2},
		"sparse_crow_indices": []int64{0, 0, 0, 1, 1, 2}, "sparse_col_indices": []int64{0, 1}}
	for _, asked := range []object{targets(dense, int64(places), 2), sparse} {
		got := c.sampled(object{"base_model": "tiny", "prompt_logprobs": false, "target_prompt_logprobs": asked})
		if got.PromptLogprobs != nil || (got.PromptTargets.CSR == nil) != (asked["sparse_col_indices"] == nil) {
			t.Errorf("%+v", got)
		}
		values, err := got.PromptTargets.Floats()
		if err != nil || len(values) != len(dense) {
			t.Fatal(values, err)
		}
		for i, value := range values {
			want := float32(0)
			switch i {
			case 4:
				want = whole.PromptLogprobs[3]
			case 9:
				want = whole.PromptTop.Logprobs[10*5]
			}
			if value != want {
				t.Errorf("target %d: %v, want %v", i, value, want)
			}
		}
	}
	drawn := func(in object) ([]int32, []float32) {
		maps.Copy(in, object{"base_model": "tiny", "prompt_alt_tokens_k": 4, "sampling_params": object{"seed": 7, "max_tokens": 1}})
		a := c.sampled(in).PromptAlternatives
		tokens, err := a.Tokens.Tokens()
		logprobs, bad := a.Logprobs.Floats()
		if err != nil || bad != nil || !slices.Equal(a.Tokens.Shape, []int64{int64(places), 4}) || len(logprobs) != 4*places {
			t.Fatalf("%+v", a)
		}
		return tokens, logprobs
	}
	tokens, logprobs := drawn(object{})
	for i, id := range tokens {
		if lp, known := likely[[2]int32{int32(1 + i/4), id}]; known && lp != logprobs[i] {
			t.Errorf("draw %d is %d with %v, and likely with %v", i, id, logprobs[i], lp)
		}
	}
	if again, _ := drawn(object{"num_samples": 2}); !slices.Equal(again, tokens) ||
		len(slices.Compact(slices.Sorted(slices.Values(tokens)))) < 3 {
		t.Errorf("draws %v, again %v", tokens, again)
	}
}
