package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Judge compares records with the oracle. stops are the tokens that end a reply. They count as one
// outcome, because engines differ in the stop tokens that they know. It is an error if the records
// hold nothing to compare.
func Judge(ctx context.Context, oracle Oracle, records []*Record, stops []int32, limits Limits) (*Report, error) {
	j := &judge{oracle: oracle, stops: stops, tie: 2 * limits.Mean}
	for _, r := range records {
		if err := j.read(ctx, r); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Place, err)
		}
	}
	report := &Report{Sequences: len(records), Differences: j.differences.sum(), GreedyTokens: j.greedyTokens}
	if j.greedyTokens > 0 {
		report.Greedy = float64(j.greedySame) / float64(j.greedyTokens)
	}
	var err error
	if report.Samples, err = j.testSamples(ctx); err != nil {
		return nil, err
	}
	if report.Tokens == 0 && report.GreedyTokens == 0 && len(report.Samples) == 0 {
		return nil, errors.New("nothing to compare: the records have no log-probability of a token after the first, " +
			"no most likely token, and no prompt with enough samples")
	}
	report.check(limits)
	return report, nil
}

// judge accumulates the figures of records.
type judge struct {
	oracle Oracle
	stops  []int32
	tie    float64 // nats: a token this close to the best one is as good

	differences              differences
	greedyTokens, greedySame int
	groups                   []*group
	surprise                 surpriseTest
}

// group counts the first tokens that were drawn after one prompt under one setting.
type group struct {
	prompt            []int32
	temperature, topP float64
	counts            map[int32]int
	draws             int
}

// read compares one record.
func (j *judge) read(ctx context.Context, r *Record) error {
	if err := r.check(); err != nil {
		return err
	}
	if r.sampled() && !r.Selected {
		j.count(r)
	}
	first := 1
	for first < len(r.Tokens) && !r.compares(first) {
		first++
	}
	if first == len(r.Tokens) {
		return nil
	}
	return j.oracle.Distributions(ctx, r.Tokens[:len(r.Tokens)-1], first, func(t int, logprobs []float32) error {
		if token := r.Tokens[t]; token < 0 || int(token) >= len(logprobs) { // the oracle does not check the last token, which is not an input
			return fmt.Errorf("token %d at position %d is outside the vocabulary of %d", token, t, len(logprobs))
		}
		if r.compares(t) {
			j.compare(r, t, logprobs)
		}
		return nil
	})
}

// check returns an error if the record is unusable.
func (r *Record) check() error {
	n := len(r.Tokens)
	switch {
	case n < 2:
		return fmt.Errorf("%d tokens: want at least 2, as the first has no probability", n)
	case r.Logprobs != nil && len(r.Logprobs) != n:
		return fmt.Errorf("%d logprobs for %d tokens", len(r.Logprobs), n)
	case r.Best != nil && len(r.Best) != n:
		return fmt.Errorf("%d best tokens for %d tokens", len(r.Best), n)
	case r.Mask != nil && len(r.Mask) != n:
		return fmt.Errorf("a mask of %d for %d tokens", len(r.Mask), n)
	case r.PromptLen < 0 || r.PromptLen > n:
		return fmt.Errorf("prompt_len is %d of %d tokens", r.PromptLen, n)
	case !(r.Temperature >= 0) || math.IsInf(r.Temperature, 1):
		return fmt.Errorf("temperature is %v: want 0 (which means 1) or more", r.Temperature)
	case !(r.TopP >= 0 && r.TopP <= 1):
		return fmt.Errorf("top_p is %v: want 0 (which means 1) to 1", r.TopP)
	}
	return nil
}

func (r *Record) hasLogprob(t int) bool { return r.Logprobs != nil && !math.IsNaN(r.Logprobs[t]) }

// compares reports whether the comparison needs the oracle's distribution at t.
func (r *Record) compares(t int) bool {
	return r.hasLogprob(t) || r.Best != nil && r.Best[t] >= 0 || r.surprising(t)
}

// compare compares token t with the oracle's distribution.
func (j *judge) compare(r *Record, t int, logprobs []float32) {
	drawn, token := r.drawn(t), r.Tokens[t]
	if r.Best != nil && r.Best[t] >= 0 {
		j.greedyTokens++
		if int(r.Best[t]) < len(logprobs) && float64(slices.Max(logprobs)-j.likeliest(logprobs, r.Best[t])) <= j.tie {
			j.greedySame++
		}
	}
	temperature := 1.0
	if drawn {
		temperature = r.temperature()
	}
	if r.hasLogprob(t) {
		j.differences.add(r.Logprobs[t]-logprobAt(logprobs, token, temperature), drawn)
	}
	if r.surprising(t) {
		j.surprise.add(j.merged(shaped(logprobs, temperature, 1)), j.outcome(token))
	}
}

// logprobAt returns the log-probability of a token, in nats, when logits are divided by a
// temperature.
func logprobAt(logprobs []float32, token int32, temperature float64) float64 {
	if temperature == 1 {
		return float64(logprobs[token])
	}
	best, sum := float64(slices.Max(logprobs)), 0.0
	for _, l := range logprobs {
		sum += math.Exp((float64(l) - best) / temperature)
	}
	return (float64(logprobs[token])-best)/temperature - math.Log(sum)
}

// count adds the first token of a reply to the group of its prompt and setting.
func (j *judge) count(r *Record) {
	prompt := r.Tokens[:r.PromptLen]
	i, found := slices.BinarySearchFunc(j.groups, r, func(g *group, r *Record) int {
		return cmp.Or(cmp.Compare(g.temperature, r.temperature()), cmp.Compare(g.topP, r.topP()), slices.Compare(g.prompt, prompt))
	})
	if !found {
		g := &group{prompt: prompt, temperature: r.temperature(), topP: r.topP(), counts: map[int32]int{}}
		j.groups = slices.Insert(j.groups, i, g)
	}
	j.groups[i].counts[j.outcome(r.Tokens[r.PromptLen])]++
	j.groups[i].draws++
}

// likeliest returns the log-probability of a token; for a stop token it returns that of the most
// likely stop token.
func (j *judge) likeliest(logprobs []float32, token int32) float32 {
	best := logprobs[token]
	if slices.Contains(j.stops, token) {
		for _, stop := range j.stops {
			if int(stop) < len(logprobs) {
				best = max(best, logprobs[stop])
			}
		}
	}
	return best
}

// merged moves the probability of all stop tokens to the first one.
func (j *judge) merged(p []float64) []float64 {
	for _, stop := range j.stops {
		if first := j.stops[0]; stop != first && int(stop) < len(p) && int(first) < len(p) {
			p[first] += p[stop]
			p[stop] = 0
		}
	}
	return p
}

// outcome returns the token, or the first stop token if the token is a stop token.
func (j *judge) outcome(token int32) int32 {
	if slices.Contains(j.stops, token) {
		return j.stops[0]
	}
	return token
}
