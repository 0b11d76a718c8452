package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	wire "github.com/trinity-go/trinity/internal/wire/tinker"
)

// adapters samples from several adapters at once, or from one.
type adapters struct {
	*serving
	*assignment
	samplers []*wire.Sampling
}

func newAdapters(a *assignment) (task, error) {
	s, err := newServing(a)
	if err != nil {
		return nil, err
	}
	all := &adapters{serving: s, assignment: a}
	models, err := s.tenants(a.Lone)
	if err != nil {
		return nil, err
	}
	for _, m := range models {
		path, err := m.Save(context.Background(), wire.SamplerWeights, "bench")
		if err != nil {
			return nil, err
		}
		from, err := s.SampleFrom(context.Background(), "", path)
		if err != nil {
			return nil, err
		}
		all.samplers = append(all.samplers, from)
	}
	return all, nil
}

// newOneAdapter is newAdapters with one.
func newOneAdapter(a *assignment) (task, error) {
	a.Lone = true
	return newAdapters(a)
}

// run returns the tokens a second, prompts included.
func (x *adapters) run(number int) (sample, error) {
	var eg errgroup.Group
	start := time.Now()
	for i, prompt := range x.Calls[number] {
		eg.Go(func() error {
			out, err := x.samplers[i%len(x.samplers)].Sample(context.Background(), replyOf(prompt, 1, x.New, uint64(i)))
			if err == nil && len(out.Sequences[0].Tokens) != x.New {
				err = fmt.Errorf("prompt %d: %d tokens came, want %d", i, len(out.Sequences[0].Tokens), x.New)
			}
			return err
		})
	}
	err := eg.Wait()
	return sample{Value: float64(x.Batch*x.New) / time.Since(start).Seconds()}, err
}

// scoring asks for the log-probabilities of prompts that nobody has seen, or only for the next token.
type scoring struct {
	*serving
	*assignment
	sampler *wire.Sampling
}

func newScoring(a *assignment) (task, error) {
	s, err := newServing(a)
	if err != nil {
		return nil, err
	}
	from, err := s.SampleFrom(context.Background(), serviceModel, "")
	return &scoring{s, a, from}, err
}

// run returns the tokens of prompts a second.
func (x *scoring) run(number int) (sample, error) {
	start := time.Now()
	for i, prompt := range x.Calls[number] {
		in := replyOf(prompt, 1, 1, 1)
		in.PromptLogprobs = !x.Unscored
		out, err := x.sampler.Sample(context.Background(), in)
		if err != nil {
			return sample{}, err
		}
		if !x.Unscored && len(out.PromptLogprobs) != len(prompt) {
			return sample{}, fmt.Errorf("prompt %d: %d log-probabilities came, want %d", i, len(out.PromptLogprobs), len(prompt))
		}
	}
	return sample{Value: float64(x.Batch*x.Prompt) / time.Since(start).Seconds()}, nil
}

// newForwardBackward is one tenant. The step that follows the passes is not timed.
func newForwardBackward(a *assignment) (task, error) {
	s, err := newServing(a)
	if err != nil {
		return nil, err
	}
	m, err := s.tenant()
	return &passing{s, m}, err
}

// passing computes both passes of a batch.
type passing struct {
	*serving
	model *wire.Training
}

// run returns tokens a second.
func (p *passing) run(int) (sample, error) {
	start := time.Now()
	if _, _, err := p.model.Pass(context.Background(), wire.Pass{Loss: "cross_entropy"}, p.data); err != nil {
		return sample{}, err
	}
	s := sample{Value: float64(len(p.data)*tokensOf(&p.data[0])) / time.Since(start).Seconds()}
	rate := 1e-5
	_, err := p.model.Step(context.Background(), map[string]*float64{"learning_rate": &rate})
	return s, err
}
