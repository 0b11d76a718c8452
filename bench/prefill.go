package main

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/registry"
)

const (
	prefillTurns   = 8
	observation    = 16 // tokens of an environment between two turns
	cachedRollouts = 2  // rollouts for which the cache has room, for each of the workload's
)

// prefilling runs dialogues. While their environments work before the last turn, rollouts that end fill
// the sampler's cache.
type prefilling struct {
	sampler trinity.Sampler
	*assignment
}

func newPrefilling(a *assignment) (task, error) {
	opener, err := registry.Samplers.Build("cpu")
	if err != nil {
		return nil, err
	}
	s, err := opener.OpenSampler(context.Background(), engine.SamplerSpec{
		ModelPath: a.Model, MaxSequences: cachedRollouts * a.Batch, MaxModelLen: wholeRollout(a),
	})
	return &prefilling{s, a}, err
}

// wholeRollout returns the tokens of a rollout.
func wholeRollout(a *assignment) int { return a.Prompt + prefillTurns*(a.New+observation) }

// run returns the share of the last turn's context that the sampler computed, in percent.
func (p *prefilling) run(number int) (sample, error) {
	var eg errgroup.Group
	ended := make(chan struct{})
	defer close(ended)
	contexts, computed := make([]int, p.Batch), make([]int, p.Batch)
	sequences := slices.Clone(p.Calls[number])
	for turn := range prefillTurns {
		if turn == prefillTurns-1 {
			if err := p.fill(number); err != nil {
				return sample{}, err
			}
		}
		for i, tokens := range sequences {
			eg.Go(func() error {
				params := trinity.SamplingParams{Temperature: 1, MaxTokens: p.New, IgnoreEOS: true, Seed: uint64(i)}
				if !p.Unheld {
					params.Hold = ended
				}
				out, err := p.sampler.Sample(context.Background(), trinity.Prompt{Tokens: tokens}, params)
				if err != nil {
					return err
				}
				contexts[i], computed[i] = len(tokens), len(tokens)-out[0].Reused
				between := p.Calls[number][(i+1)%p.Batch][turn*observation:][:observation]
				sequences[i] = slices.Concat(tokens, out[0].Tokens, between)
				return nil
			})
		}
		if err := eg.Wait(); err != nil {
			return sample{}, err
		}
	}
	all, new := 0, 0
	for i := range contexts {
		all, new = all+contexts[i], new+computed[i]
	}
	return sample{Value: 100 * float64(new) / float64(all)}, nil
}

// fill computes as many tokens of other rollouts as the cache holds.
func (p *prefilling) fill(number int) error {
	var eg errgroup.Group
	for i := range cachedRollouts * p.Batch {
		eg.Go(func() error {
			tokens := []int32{int32(i + 1)} // nobody else begins so
			for len(tokens) < wholeRollout(p.assignment) {
				tokens = append(tokens, p.Calls[number][i%p.Batch]...)
			}
			prompt := trinity.Prompt{Tokens: tokens[:wholeRollout(p.assignment)-1]}
			out, err := p.sampler.Sample(context.Background(), prompt, trinity.SamplingParams{MaxTokens: 1})
			if err == nil && len(out[0].Tokens) != 1 {
				err = fmt.Errorf("a rollout beside the others has %d tokens, want 1", len(out[0].Tokens))
			}
			return err
		})
	}
	return eg.Wait()
}
