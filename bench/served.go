package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/registry"
)

// served is rollouts on a server: all prompts at once, each a request, with the log-probabilities that training reads.
type served struct {
	sampler trinity.Sampler
	calls   [][][]int32
	new     int
}

func newServed(a *assignment) (task, error) {
	opener, err := registry.Samplers.Build("vllm")
	if err != nil {
		return nil, err
	}
	s, err := opener.OpenSampler(context.Background(), engine.SamplerSpec{
		ModelPath: a.Model, MaxSequences: a.Batch, MaxModelLen: a.Prompt + a.New, Servers: []string{a.Server},
		Record:   engine.RecordSpec{Tokens: true},
		Patience: time.Minute,
	})
	return &served{s, a.Calls, a.New}, err
}

func (s *served) run(number int) (sample, error) {
	prompts := s.calls[number]
	start := time.Now()
	var eg errgroup.Group
	for i, tokens := range prompts {
		eg.Go(func() error {
			p := trinity.SamplingParams{Temperature: 1, MaxTokens: s.new, IgnoreEOS: true, Seed: uint64(i)}
			out, err := s.sampler.Sample(context.Background(), trinity.Prompt{Tokens: tokens}, p)
			if err == nil && (len(out[0].Tokens) != s.new || len(out[0].Logprobs) != s.new) {
				err = fmt.Errorf("prompt %d: %d tokens with %d log-probabilities came, want %d", i, len(out[0].Tokens), len(out[0].Logprobs), s.new)
			}
			return err
		})
	}
	err := eg.Wait()
	return sample{Value: float64(len(prompts)*s.new) / time.Since(start).Seconds()}, err
}
