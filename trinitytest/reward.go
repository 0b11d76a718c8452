package trinitytest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/trinity-go/trinity"
)

// hostile holds replies that are expensive for a careless reward, or break it.
var hostile = map[string]string{
	"empty": "", "space": " \n\t", "a number": "7", "no text": "\xff\xfe\x00", "half a rune": "7\xe2\x82",
	"zero": "<answer>1/0</answer>", "not a number": `\boxed{NaN}`,
	"infinity": "<answer>inf</answer>", "exponent": "<answer>1e999999999</answer>", "power": `\boxed{9^{9^{9^9}}}`,
	"factorials": "<answer>((9!)!)!</answer>",
	"letters":    strings.Repeat("a", 2000), "x": strings.Repeat("x", 2000), "braces": `\boxed` + strings.Repeat("{", 2000),
	"dollars":      strings.Repeat("$", 2000),
	"closed boxes": strings.Repeat(`\boxed{`, 300) + "1" + strings.Repeat("}", 300), "thoughts": strings.Repeat("<think></think>", 150),
	"objects": strings.Repeat(`{"a":`, 2000), "arrays": strings.Repeat("[", 2000) + strings.Repeat("]", 2000),
	"answers": strings.Repeat("answer is ", 200),
	"hashes":  strings.Repeat("####", 500), "numbers": strings.Repeat("1,1.", 500),
	"fractions": `\boxed{` + strings.Repeat(`\frac{1}{`, 200) + "1" + strings.Repeat("}", 200) + "}",
}

// truths holds several kinds of truths, so that a reward can read some and cannot read others.
var truths = []string{"7", "", `{"target": 7, "numbers": [7]}`, "\xff\xfe\x00", strings.Repeat("(", 1000)}

// scoreOnce returns the result of Score as text, and checks what always holds.
func scoreOnce(ctx context.Context, t *testing.T, fn trinity.RewardFunc, in trinity.RewardInput) string {
	r, err := fn.Score(ctx, in)
	if err != nil {
		return "error: " + err.Error()
	}
	for part, v := range r.Parts {
		if r.Valid && !finite(v) {
			t.Errorf("truth %.20q: part %s is %v", in.Truth, part, v)
		}
	}
	switch {
	case r.Valid && !finite(r.Value):
		t.Errorf("truth %.20q: a valid reward of %v", in.Truth, r.Value)
	case !r.Valid && r.Reason == "":
		t.Errorf("truth %.20q: an invalid reward without a reason", in.Truth)
	}
	return fmt.Sprintf("%+v", r)
}

// inputs returns the inputs for a reply: every truth, with and without a sequence.
func inputs(reply string) []trinity.RewardInput {
	var all []trinity.RewardInput
	for _, truth := range truths {
		task := &trinity.Task{ID: "taskset/0", Row: map[string]any{"answer": truth}, Format: trinity.TaskFormat{ResponseKey: "answer"}}
		in := trinity.RewardInput{Task: task, Prompt: "What is 3 + 4?", Response: reply, Truth: truth}
		e := &trinity.Experience{Tokens: []int32{1, 2, 3}, Mask: []bool{false, true, true}, PromptLen: 1, Response: reply,
			Truncated: trinity.ResponseTruncated}
		all = append(all, in, trinity.RewardInput{Task: task, Prompt: in.Prompt, Response: reply, Truth: truth, Experience: e})
	}
	return all
}

// Reward checks the contract of reward functions for hostile replies. They return a finite value,
// an invalid reward with a reason, or an error. They return the same each time, also to concurrent
// callers. The time limit of the test catches slow ones. build returns a new, equal function each
// time.
func Reward(t *testing.T, build func() trinity.RewardFunc) {
	t.Run("a million bytes", func(t *testing.T) {
		if testing.Short() {
			t.Skip("long under the race detector")
		}
		fn := build()
		for _, in := range inputs(strings.Repeat("9", 1_000_000)) {
			probe := in
			probe.Response = "7"
			if r, err := fn.Score(t.Context(), probe); err == nil && r.Valid { // one readable truth is enough
				scoreOnce(t.Context(), t, fn, in)
				break
			}
		}
	})
	for name, reply := range hostile {
		t.Run(name, func(t *testing.T) {
			shared := build()
			var wg sync.WaitGroup
			for _, in := range inputs(reply) {
				want := scoreOnce(t.Context(), t, build(), in)
				wg.Go(func() {
					if got := scoreOnce(t.Context(), t, shared, in); got != want {
						t.Errorf("truth %.20q: got %s, and %s at first", in.Truth, got, want)
					}
				})
			}
			wg.Wait()
		})
	}
	t.Run("a context that has ended", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		scoreOnce(ctx, t, build(), inputs("7")[0])
	})
}
