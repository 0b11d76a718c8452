package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/internal/wire/openai"
)

// askers are the open models that rollouts ask, by name.
type askers map[string]asker

// asker is a model of this process, which each rollout gets a copy of, or one behind a server.
type asker struct {
	model  func() *trinity.Model
	beyond trinity.Asker
	as     any          // the model and how it samples, for the key of its answers
	close  func() error // nil if there is nothing to close
}

// openAsked opens the models that rollouts ask.
func (h *Host) openAsked(ctx context.Context) error {
	s := h.stage
	models := s.AskedModels()
	if len(models) > 0 {
		dir, err := h.Dir("asked")
		if err == nil {
			err = h.answered.open(dir)
		}
		if err != nil {
			return err
		}
	}
	for _, a := range models {
		if a.External {
			client, sampling := settle.Client(a.AskedModel), openai.Request{
				Model: a.ExternalModelConfig.ModelName, MaxTokens: a.MaxResponseTokens,
			}
			if a.Temperature != nil {
				sampling.Temperature, sampling.TopP = new(float32(*a.Temperature)), new(float32(*a.TopP))
			}
			h.askers[a.Name] = asker{
				beyond: &openai.Asker{Client: client, Name: a.Name, Sampling: sampling}, as: []any{client.BaseURL, sampling},
			}
			continue
		}
		sampler, err := s.Openers.Sampler.OpenSampler(ctx, a.Spec(s.Batch.Sequences))
		if err != nil {
			return s.At(a.Key, fmt.Sprintf("opening model %s: %v", a.Local, err), "")
		}
		as := []any{a.Local, a.Quantization, a.ChatTemplate, a.EnableThinking, a.MaxModelLen, a.Temperature, a.TopP, a.TopK,
			a.RepetitionPenalty, a.MaxResponseTokens, a.MinResponseTokens}
		open := asker{as: as, model: func() *trinity.Model {
			return &trinity.Model{Sampler: sampler, Renderer: a.Text, MaxModelLen: config.Value(0, a.MaxModelLen), Params: trinity.SamplingParams{
				Temperature: float32(*a.Temperature), TopP: float32(*a.TopP), TopK: *a.TopK, RepetitionPenalty: float32(*a.RepetitionPenalty),
				MaxTokens: config.Value(0, a.MaxResponseTokens), MinTokens: *a.MinResponseTokens, Untrained: true,
			}}
		}}
		if c, ok := sampler.(io.Closer); ok {
			open.close = c.Close
		}
		h.askers[a.Name] = open
	}
	return nil
}

func (a askers) close() error {
	var errs []error
	for _, one := range a {
		if one.close != nil {
			errs = append(errs, one.close())
		}
	}
	clear(a)
	return errors.Join(errs...)
}

// Asker implements explorer.Host.
func (h *Host) Asker(task *trinity.Task, name string, own func(*trinity.Model) *trinity.Model) (trinity.Asker, error) {
	if name == trinity.PolicyAsker {
		m, err := h.Model(task, "")
		if err != nil {
			return nil, err
		}
		return own(m).Asker(name), nil
	}
	if a, ok := settle.AskedBy(h.stage.Settled, name); ok {
		name = a.Name
	}
	switch one, ok := h.askers[name]; {
	case !ok:
		return nil, fmt.Errorf("no model is called %q: the plug-in must list it in its Requirements, and explorer.auxiliary_models "+
			"must have it (open are %s)", name, strings.Join(slices.Sorted(maps.Keys(h.askers)), ", "))
	case one.model != nil:
		m := own(one.model())
		return cachingAsker{m.Asker(name), &h.answered, name, one.as, m.Params.Seed}, nil
	default:
		return cachingAsker{one.beyond, &h.answered, name, one.as, 0}, nil
	}
}
