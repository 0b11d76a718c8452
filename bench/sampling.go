package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/registry"
)

// sampling is a batch of prompts that nobody has seen, all at once.
type sampling struct {
	sampler trinity.Sampler
	calls   [][][]int32
	new     int
	whole   bool
	form    func(number int) (trinity.Constraint, error) // of the replies of a run; nil for none
}

func newSampling(a *assignment) (task, error) {
	spec := engine.SamplerSpec{ModelPath: a.Model, MaxSequences: a.Batch, MaxModelLen: a.Prompt + a.New}
	if a.DType != "f32" {
		spec.Quantization = a.DType
	}
	opener, err := registry.Samplers.Build("cpu")
	if err != nil {
		return nil, err
	}
	s, err := opener.OpenSampler(context.Background(), spec)
	return &sampling{sampler: s, calls: a.Calls, new: a.New, whole: a.Whole}, err
}

func (s *sampling) run(number int) (sample, error) {
	prompts := s.calls[number]
	c := newClock(len(prompts))
	var eg errgroup.Group
	for i, tokens := range prompts {
		eg.Go(func() error {
			p := trinity.SamplingParams{Temperature: 1, MaxTokens: s.new, IgnoreEOS: true, Seed: uint64(i)}
			if s.form != nil {
				var err error
				if p.Constraint, err = s.form(number); err != nil {
					return err
				}
			}
			p.OnToken = func(int, trinity.Sampled) { c.tick(i) }
			out, err := s.sampler.Sample(context.Background(), trinity.Prompt{Tokens: tokens}, p)
			if err == nil && len(out[0].Tokens) != s.new {
				err = fmt.Errorf("prompt %d: %d tokens came, want %d", i, len(out[0].Tokens), s.new)
			}
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return sample{}, err
	}
	switch {
	case s.whole:
		return sample{Value: float64(len(prompts)*s.new) / c.last.Sub(c.start).Seconds()}, nil
	case s.new == 1:
		return sample{Value: float64(len(prompts)*len(prompts[0])) / c.prefill().Seconds()}, nil
	}
	return sample{Value: c.decode()}, nil
}

// clock separates prefill from decoding: decoding begins when every sequence has its first token.
type clock struct {
	mu      sync.Mutex
	start   time.Time
	begun   []bool
	waiting int       // sequences without a token
	first   time.Time // when the last of them got one
	last    time.Time
	count   int // tokens after first
}

func newClock(sequences int) *clock {
	return &clock{start: time.Now(), begun: make([]bool, sequences), waiting: sequences}
}

func (c *clock) tick(sequence int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
	if c.waiting == 0 {
		c.count++
	}
	if !c.begun[sequence] {
		c.begun[sequence] = true
		if c.waiting--; c.waiting == 0 {
			c.first = c.last
		}
	}
}

func (c *clock) prefill() time.Duration { return c.first.Sub(c.start) }

// decode is in tokens per second.
func (c *clock) decode() float64 { return float64(c.count) / c.last.Sub(c.first).Seconds() }
