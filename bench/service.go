package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/run/service"
	wire "github.com/trinity-go/trinity/internal/wire/tinker"
)

// serving is a service in this process, as trinity service runs it, with a client that calls it over loopback.
type serving struct {
	*wire.Client
	address string
	rank    int
	data    []wire.Datum // of the texts, each of as many tokens as the workload has
}

// serviceModel is the name of the model, and serviceRank the rank that the SDK gives an adapter.
const (
	serviceModel = "bench"
	serviceRank  = 32
)

// startService starts a service whose sequences have at most so many tokens.
func startService(a *assignment, name string, most int) (*serving, error) {
	addresses, ended := make(chan string, 1), make(chan error, 1)
	say := func(line string) {
		if _, rest, ok := strings.Cut(line, "TINKER_BASE_URL="); ok {
			address, _, _ := strings.Cut(rest, " ")
			addresses <- address
		}
	}
	go func() { // ends with the process
		ended <- service.Run(context.Background(), service.Options{
			Dir: a.Dir, Models: []service.Model{{Name: name, Path: a.Model}}, Trainer: "cpu", Sampler: "cpu", Address: "127.0.0.1:0",
			MaxLen: most, Alpha: a.Rank, Gap: time.Minute, Keep: time.Hour, Say: say,
		})
	}()
	s := &serving{rank: a.Rank}
	select {
	case s.address = <-addresses:
	case err := <-ended:
		return nil, errors.Join(errors.New("the service has ended"), err)
	}
	var err error
	s.Client, err = wire.Open(context.Background(), s.address, time.Minute, say)
	return s, err
}

// newServing starts a service for the workload's sequences, and makes data of its texts if it trains.
func newServing(a *assignment) (*serving, error) {
	s, err := startService(a, serviceModel, a.Prompt+a.New)
	if err != nil {
		return nil, err
	}
	if len(a.Train) > 0 {
		s.data = dataOf(a)
	}
	return s, nil
}

// dataOf returns sequences all of whose tokens are trained.
func dataOf(a *assignment) (data []wire.Datum) {
	ones := make([]float32, a.Prompt)
	for i := range ones {
		ones[i] = 1
	}
	for i := range a.Batch {
		from := i * a.Prompt % max(1, len(a.Train)-a.Prompt)
		ids := a.Train[from : from+a.Prompt+1]
		data = append(data, wire.Datum{Input: []wire.Chunk{wire.TextChunk(ids[:a.Prompt])}, Inputs: []wire.Named{
			{Name: "target_tokens", Tensor: wire.NewTokens(ids[1:])}, {Name: "weights", Tensor: wire.NewFloats(ones)},
		}})
	}
	return data
}

// tenant makes a model.
func (s *serving) tenant() (*wire.Training, error) {
	return s.Train(context.Background(), serviceModel, wire.LoRAConfig{Rank: s.rank})
}

// tenants makes the models of all tenants, or of one.
func (s *serving) tenants(lone bool) (all []*wire.Training, err error) {
	for range tenantCount {
		m, err := s.tenant()
		if err != nil {
			return nil, err
		}
		if all = append(all, m); lone {
			break
		}
	}
	return all, nil
}

// trainStep computes both passes of data, and a step.
func trainStep(t *wire.Training, data []wire.Datum) error {
	ctx, rate := context.Background(), 1e-5
	if _, _, err := t.Pass(ctx, wire.Pass{Loss: "cross_entropy"}, data); err != nil {
		return err
	}
	_, err := t.Step(ctx, map[string]*float64{"learning_rate": &rate})
	return err
}

// replyOf returns a request for replies of so many tokens, which nothing ends before.
func replyOf(prompt []int32, replies, tokens int, seed uint64) wire.Sample {
	number := wire.Seed(seed)
	return wire.Sample{
		NumSamples: replies, Prompt: wire.Prompt{Chunks: []wire.PromptChunk{{Type: "encoded_text", Tokens: prompt}}},
		Params: wire.SamplingParams{MaxTokens: &tokens, Seed: &number, Stop: &wire.Stop{}},
	}
}
