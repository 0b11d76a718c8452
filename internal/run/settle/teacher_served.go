package settle

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/model/renderer"
	"github.com/trinity-go/trinity/registry"
)

// encoder returns a function that encodes a text without special tokens.
func encoder(text *renderer.Renderer) func(string) []int32 {
	return func(s string) []int32 { return text.Tokenizer().Encode(s, false) }
}

// openServed opens a teacher behind servers.
func (s *Stage) openServed(ctx context.Context, t TeacherModel, say func(string)) (engine.Trainer, error) {
	m := t.Served
	opener, err := registry.Samplers.Build(m.EngineType, m.EngineArgs)
	if err != nil {
		return nil, err
	}
	sampler, err := opener.OpenSampler(ctx, engine.SamplerSpec{
		ModelPath: s.ModelPath, Servers: m.BaseUrls, Key: m.APIKey, Patience: wait.Seconds(s.Explorer.MaxTimeout), Scores: true,
		MaxSequences: scoredAtOnce, MaxModelLen: *s.Model.MaxModelLen, Text: s.Text.Decode, Tokens: encoder(s.Text), Say: say,
	})
	if err != nil {
		return nil, err
	}
	scorer, ok := sampler.(engine.Rescorer)
	if !ok {
		err := fmt.Errorf("engine %s scores no tokens that it is given, which a teacher must: choose another", m.EngineType)
		return nil, closeAfter(err, sampler)
	}
	return &servedTeacher{scorer}, nil
}

// scoredAtOnce is the most sequences that a teacher behind servers scores at once.
const scoredAtOnce = 16

// servedTeacher is a frozen engine that asks a sampler for the log-probabilities of given tokens.
type servedTeacher struct{ scorer engine.Rescorer }

// Forward implements engine.Trainer. It has log-probabilities alone, at temperature 1.
func (t *servedTeacher) Forward(ctx context.Context, b *trinity.Batch, want trinity.Streams) ([]trinity.TokenStats, error) {
	if want != (trinity.Streams{}) {
		return nil, errForwardAlone
	}
	for _, e := range b.Experiences {
		if e.Temperature != 1 {
			return nil, fmt.Errorf("experience %s was sampled at temperature %v, and a teacher behind servers scores at temperature 1: "+
				"set the temperature to 1", e.ID, e.Temperature)
		}
	}
	stats := make([]trinity.TokenStats, len(b.Experiences))
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(scoredAtOnce)
	for i, e := range b.Experiences {
		eg.Go(func() error {
			logprobs, err := t.scorer.Logprobs(ctx, e.Tokens)
			if err == nil && len(logprobs) != len(e.Tokens)-1 {
				err = fmt.Errorf("%d log-probabilities for the %d tokens after the first", len(logprobs), len(e.Tokens)-1)
			}
			if err != nil {
				return fmt.Errorf("scoring experience %s: %w", e.ID, err)
			}
			stats[i].Logprob = make([]float32, len(e.Tokens))
			for at, trained := range e.Mask {
				if trained {
					stats[i].Logprob[at] = logprobs[at-1]
				}
			}
			return nil
		})
	}
	return stats, eg.Wait()
}

var errForwardAlone = errors.New("a teacher behind servers has log-probabilities alone")

// Reference implements engine.Trainer.
func (*servedTeacher) Reference(context.Context, *trinity.Batch) ([]trinity.TokenStats, error) {
	return nil, errForwardAlone
}

// ForwardBackward implements engine.Trainer.
func (*servedTeacher) ForwardBackward(context.Context, *trinity.Batch, trinity.Loss) (trinity.Metrics, error) {
	return nil, errForwardAlone
}

// OptimStep implements engine.Trainer.
func (*servedTeacher) OptimStep(context.Context, trinity.OptimParams) (trinity.Metrics, error) {
	return nil, errForwardAlone
}

// SaveState implements engine.Trainer.
func (*servedTeacher) SaveState(context.Context, string) error { return errForwardAlone }

// LoadState implements engine.Trainer.
func (*servedTeacher) LoadState(context.Context, string) error { return errForwardAlone }

// SaveModel implements engine.Trainer.
func (*servedTeacher) SaveModel(context.Context, string) error { return errForwardAlone }

// Close implements engine.Trainer.
func (t *servedTeacher) Close() error { return closeAfter(nil, t.scorer) }

// closeAfter closes a sampler, if it has anything to close, and returns both failures in one line.
func closeAfter(err error, s trinity.Sampler) error {
	c, ok := s.(io.Closer)
	if !ok {
		return err
	}
	switch failed := c.Close(); {
	case failed == nil:
		return err
	case err == nil:
		return failed
	default:
		return fmt.Errorf("%w; closing it: %w", err, failed)
	}
}
