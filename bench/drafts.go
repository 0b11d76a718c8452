//go:build !past

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// sureTemperature makes SmolLM2 as sure of its tokens as a policy is late in training: of some hundredths of a nat.
const sureTemperature = .05

// drafts are the workloads with draft tokens. Commits before these have none.
var drafts = []workload{
	{name: "drafts_1", model: true, unit: "tok/s", rows: 1, prompt: promptSize, new: newTokens, ours: newDrafting(sureTemperature, equal),
		rivals: []rival{withoutDrafts(1.8)}},
	{name: "drafts_group", model: true, unit: "tok/s", rows: group, copies: group, prompt: promptSize, new: newTokens,
		ours: newDrafting(sureTemperature, equal), rivals: []rival{withoutDrafts(1.8)}},
	{name: "drafts_tail", model: true, unit: "tok/s", rows: 4 * group, copies: group, prompt: promptSize, new: 512,
		ours: newDrafting(sureTemperature, unequal), rivals: []rival{withoutDrafts(1.3)}},
	{name: "drafts_unsure", model: true, unit: "tok/s", rows: 32, prompt: promptSize, new: newTokens, ours: newDrafting(1, equal),
		rivals: []rival{withoutDrafts(.99)}},
}

func init() { workloads = append(workloads, drafts...) }

// withoutDrafts is our sampler with explorer.rollout_model.speculate: off.
func withoutDrafts(target float64) rival {
	return rival{name: "ourselves, without drafts", program: "ourselves", target: target, differs: func(a *assignment) { a.Speculate = "off" }}
}

// drafting samples the same prompts in each run, as the epochs of a training do, with other seeds.
type drafting struct {
	*assignment
	sampler     trinity.Sampler
	temperature float32
	length      func(sequence, most int) int
}

func newDrafting(temperature float32, length func(sequence, most int) int) func(*assignment) (task, error) {
	return func(a *assignment) (task, error) {
		opener, err := registry.Samplers.Build("cpu")
		if err != nil {
			return nil, err
		}
		spec := samplerSpec(a)
		spec.Speculate = a.Speculate
		s, err := opener.OpenSampler(context.Background(), spec)
		return &drafting{a, s, temperature, length}, err
	}
}

// equal lengths are the most tokens.
func equal(_, most int) int { return most }

// unequal lengths have a long tail, as the waits of unequal_rollouts: 100 tokens in the mean.
func unequal(sequence, most int) int {
	return max(1, min(most, int(2*wait(sequence/group, sequence%group).Milliseconds())))
}

// run returns tokens a second of a synchronous step, which ends with its last sequence. The loss is the mean of their surprise, in nats.
func (d *drafting) run(number int) (sample, error) {
	var eg errgroup.Group
	var mu sync.Mutex
	tokens, surprise := 0, 0.
	start := time.Now()
	for i, prompt := range d.Calls[0] {
		eg.Go(func() error {
			p := trinity.SamplingParams{Temperature: d.temperature, MaxTokens: d.length(i, d.New), IgnoreEOS: true, Seed: uint64(number*d.Batch + i)}
			out, err := d.sampler.Sample(context.Background(), trinity.Prompt{Tokens: prompt}, p)
			if err != nil {
				return err
			}
			if len(out[0].Tokens) != p.MaxTokens {
				return fmt.Errorf("prompt %d: %d tokens came, want %d", i, len(out[0].Tokens), p.MaxTokens)
			}
			mu.Lock()
			defer mu.Unlock()
			tokens += p.MaxTokens
			for _, logprob := range out[0].Logprobs {
				surprise -= float64(logprob)
			}
			return nil
		})
	}
	err := eg.Wait()
	return sample{Value: float64(tokens) / time.Since(start).Seconds(), Loss: surprise / float64(max(1, tokens))}, err
}
