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
		return sample{Value: float64(len(prompts)*len(prompts[0])) / c.begun.Sub(c.start).Seconds()}, nil
	}
	return c.decode()
}

// clock separates prefill from decoding. It times the steps in which all sequences decode: from the first after the step that gave the
// last of them its first token to the one that gives some sequence its last. All steps deliver the tokens of one sequence first.
type clock struct {
	mu      sync.Mutex
	start   time.Time
	begun   time.Time // when the last sequence got its first token
	last    time.Time // token
	tokens  []int     // of each sequence
	most    int       // tokens of a sequence
	waiting int       // sequences without a token
	ending  bool      // some sequence has all its tokens
	leader  int       // sequence whose tokens come first in a step; -1 is unknown
	before  int       // sequence of the token before
	count   int       // tokens since first
	first   moment    // of the first step in which all decode
	end     moment    // of the last
	counted int       // tokens until then
}

// moment is when something was, and the processor time that this process had taken.
type moment struct {
	time.Time
	cpu time.Duration
}

func now() moment { return moment{time.Now(), processorTime()} }

func newClock(sequences, most int) *clock {
	return &clock{start: time.Now(), tokens: make([]int, sequences), most: most, waiting: sequences, leader: -1}
}

// steady tells whether all sequences decode in the next step.
func (c *clock) steady() bool { return c.waiting == 0 && !c.ending }

func (c *clock) tick(sequence int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
	if c.steady() {
		c.count++
		c.stepped(sequence)
	}
	c.before = sequence
	c.tokens[sequence]++
	c.ending = c.ending || c.tokens[sequence] == c.most
	if c.tokens[sequence] == 1 {
		if c.waiting--; c.waiting == 0 {
			c.begun = c.last
		}
	}
}

// stepped notes when a step has ended, if this is its first token.
func (c *clock) stepped(sequence int) {
	switch {
	case c.leader < 0:
		c.leader, c.first, c.count = sequence, now(), 0
	case sequence == c.leader && (c.before != sequence || len(c.tokens) == 1):
		c.end, c.counted = now(), c.count
	}
}

// decode returns tokens per second, and the processor time of a token.
func (c *clock) decode() (sample, error) {
	if c.counted == 0 {
		return sample{}, fmt.Errorf("no two steps decode all %d sequences: some end before the last has its first token", len(c.tokens))
	}
	n := float64(c.counted)
	return sample{Value: n / c.end.Sub(c.first.Time).Seconds(), Cost: (c.end.cpu - c.first.cpu).Seconds() / n}, nil
}
