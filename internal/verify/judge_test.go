package verify

import (
	"context"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/engine/cpu"
)

const tiny = "../../engine/cpu/testdata/llama"

func oracle(t testing.TB) *cpu.Engine {
	t.Helper()
	e, err := cpu.Open(cpu.Options{ModelPath: tiny, MaxTokens: 64, ForwardOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func recorded(t testing.TB) []*Record {
	t.Helper()
	records, err := ReadRecords(filepath.Join("testdata", "transformers.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func judged(t testing.TB, records []*Record, limits Limits) *Report {
	t.Helper()
	r, err := Judge(context.Background(), oracle(t), records, nil, limits)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// strict are limits for an engine that computes in f32.
var strict = Limits{Mean: 1e-5, Max: 1e-4, Ratio: 0, Greedy: 1, Significance: 0.001}

func TestTransformersAgrees(t *testing.T) {
	r := judged(t, recorded(t), strict)
	if !r.Agree || r.Tokens != 4+16+39+2*300*3 || r.GreedyTokens != 4+16+39 || len(r.Samples) != 3 {
		t.Errorf("%+v", r)
	}
}

// TestDisagreement changes records in one way at a time. Only the checks for that change may fail.
func TestDisagreement(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Record)
		limits Limits
		want   string // names of the checks that fail
	}{
		{"logprobs a little off", func(r *Record) {
			for t := range r.Logprobs {
				r.Logprobs[t] += 1e-3
			}
		}, strict, "mean |difference|, nats; largest |difference|, nats"},
		{"one logprob far off", func(r *Record) {
			if len(r.Tokens) == 17 {
				r.Logprobs[9] += 5
			}
		}, strict, "mean |difference|, nats; largest |difference|, nats; share of ratios outside 0.8 to 1.25"},
		{"logprobs of temperature 1", func(r *Record) {
			if r.Temperature == 0.6 {
				r.Temperature = 1
			}
		}, DefaultLimits(), "mean |difference|, nats; share of ratios outside 0.8 to 1.25; " +
			"p, first token, temperature 1; p, surprise of whole replies"},
		{"other greedy tokens", func(r *Record) {
			for t := range r.Best {
				r.Best[t] ^= 1
			}
		}, strict, "share of equal greedy tokens"},
		{"most likely tokens outside of the vocabulary", func(r *Record) {
			for t := range r.Best {
				r.Best[t] += 1000
			}
		}, strict, "share of equal greedy tokens"},
		{"samples of another temperature", func(r *Record) {
			if r.Temperature == 0.6 {
				r.Temperature, r.Logprobs = 2, nil
			}
		}, DefaultLimits(), "p, first token, temperature 2; p, surprise of whole replies"},
		{"samples that ignore the nucleus", func(r *Record) {
			if r.sampled() {
				r.TopP, r.Logprobs = 0.5, nil
			}
		}, DefaultLimits(), "p, first token, temperature 0.6, nucleus; p, first token, temperature 1, nucleus"},
	} {
		records := recorded(t)
		for _, r := range records {
			c.change(r)
		}
		r := judged(t, records, c.limits)
		var failed []string
		for _, check := range r.Checks {
			if !check.OK {
				failed = append(failed, check.Name)
			}
		}
		if got := strings.Join(failed, "; "); got != c.want || r.Agree {
			t.Errorf("%s: failed %q, want %q; agree %t", c.name, got, c.want, r.Agree)
		}
	}
}

func TestJudgeRefuses(t *testing.T) {
	for _, c := range []struct {
		record Record
		want   string
	}{
		{Record{Tokens: []int32{1, 2}}, "nothing to compare"},
		{Record{Tokens: []int32{1}}, "here: 1 tokens: want at least 2"},
		{Record{Tokens: []int32{1, 99, 2}, Logprobs: []float64{math.NaN(), 0, 0}}, "here: .*token 99 at position 1"},
		{Record{Tokens: []int32{1, 99}, Logprobs: []float64{math.NaN(), 0}}, "here: token 99 at position 1 is outside the vocabulary of 64"},
		{Record{Tokens: []int32{1, 2}, Logprobs: []float64{0}}, "1 logprobs for 2 tokens"},
		{Record{Tokens: []int32{1, 2}, Best: []int32{0}}, "1 best tokens"},
		{Record{Tokens: []int32{1, 2}, PromptLen: 3}, "prompt_len is 3 of 2"},
		{Record{Tokens: []int32{1, 2}, Mask: []bool{true}}, "mask of 1"},
		{Record{Tokens: []int32{1, 2}, Temperature: -1}, "temperature is -1"},
		{Record{Tokens: []int32{1, 2}, TopP: 1.5}, "top_p is 1.5"},
	} {
		c.record.Place = "here"
		_, err := Judge(context.Background(), oracle(t), []*Record{&c.record}, nil, strict)
		if err == nil || !matches(c.want, err.Error()) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// TestStopTokensAreOneOutcome replaces the most common first token in the draws with a rare one.
func TestStopTokensAreOneOutcome(t *testing.T) {
	const rare = 1
	var drawn []*Record
	counts := make([]int, 64)
	for _, r := range recorded(t) {
		if r.Temperature == 0.6 {
			r.Tokens, r.Logprobs = r.Tokens[:r.PromptLen+1], nil
			counts[r.Tokens[r.PromptLen]]++
			drawn = append(drawn, r)
		}
	}
	common := int32(slices.Index(counts, slices.Max(counts)))
	for _, r := range drawn {
		if r.Tokens[r.PromptLen] == common {
			r.Tokens[r.PromptLen] = rare
		}
	}
	for _, c := range []struct {
		stops []int32
		want  bool
	}{{nil, false}, {[]int32{rare, common}, true}} {
		r, err := Judge(context.Background(), oracle(t), drawn, c.stops, DefaultLimits())
		if err != nil || r.Agree != c.want {
			t.Errorf("stop tokens %v: %v, agree %t, want %t: %+v", c.stops, err, r.Agree, c.want, r.Samples)
		}
	}
}

func matches(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }
