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

// sampling is a batch of prompts that nobody has seen, all at once.
type sampling struct {
	sampler trinity.Sampler
	calls   [][][]int32
	new     int
	whole   bool
	form    func(number int) (trinity.Constraint, error) // of the replies of a run; nil for none
	clock   *clock                                       // of the run
}

func newSampling(a *assignment) (task, error) {
	opener, err := registry.Samplers.Build("cpu")
	if err != nil {
		return nil, err
	}
	s, err := opener.OpenSampler(context.Background(), samplerSpec(a))
	return &sampling{sampler: s, calls: a.Calls, new: a.New, whole: a.Whole}, err
}

func (s *sampling) run(number int) (sample, error) {
	prompts := s.calls[number]
	c := newClock(len(prompts), s.new)
	s.clock = c
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
		return sample{Value: float64(len(prompts)*len(prompts[0])) / c.first.Sub(c.start).Seconds()}, nil
	}
	return c.decode()
}

// clock separates prefill from decoding. It times the steps in which all sequences decode: from the step that gives the last of them
// its first token to the one that gives some sequence its last.
type clock struct {
	mu      sync.Mutex
	start   time.Time
	tokens  []int // of each sequence
	most    int   // tokens of a sequence
	waiting int   // sequences without a token
	ending  bool  // some sequence has all its tokens
	count   int   // tokens of steps in which all decode, so as many for each sequence
	first   moment
	end     moment    // of the last of these steps
	last    time.Time // token
}

// moment is when something was, and the processor time that this process had taken.
type moment struct {
	time.Time
	cpu time.Duration
}

func now() moment { return moment{time.Now(), processorTime()} }

func newClock(sequences, most int) *clock {
	return &clock{start: time.Now(), tokens: make([]int, sequences), most: most, waiting: sequences}
}

func (c *clock) tick(sequence int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
	steady := c.steady()
	c.tokens[sequence]++
	c.ending = c.ending || c.tokens[sequence] == c.most
	switch {
	case steady:
		if c.count++; c.count%len(c.tokens) == 0 {
			c.end = now()
		}
	case c.tokens[sequence] == 1:
		if c.waiting--; c.waiting == 0 {
			c.first = now()
		}
	}
}

// steady tells whether all sequences decode in this step.
func (c *clock) steady() bool {
	return c.waiting == 0 && (!c.ending || c.count%len(c.tokens) != 0)
}

// decode returns tokens per second, and the processor time of a token.
func (c *clock) decode() (sample, error) {
	if c.end.IsZero() {
		return sample{}, fmt.Errorf("no step decodes all %d sequences: some end before the last has its first token", len(c.tokens))
	}
	n := float64(c.count)
	return sample{Value: n / c.end.Sub(c.first.Time).Seconds(), Cost: (c.end.cpu - c.first.cpu).Seconds() / n}, nil
}
