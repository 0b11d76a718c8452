package feed

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/model"
)

// formatter makes experiences of a row.
type formatter = func(map[string]any) ([]*trinity.Experience, error)

// Inputs opens the experiences that join the rollouts in the pipeline, and checks every row.
func (s *Reader) Inputs(ctx context.Context) (explorer.Inputs, error) {
	var all explorer.Inputs
	for _, b := range s.Data.Inputs {
		in, err := s.input(ctx, b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.Key, err)
		}
		all = append(all, in)
	}
	return all, nil
}

// input opens this explorer's share of one input.
func (s *Reader) input(ctx context.Context, b config.NamedBuffer) (*explorer.Input, error) {
	data, format, err := s.formatted(ctx, &b.ExperienceBuffer, b.SchemaType)
	if err != nil {
		return nil, err
	}
	if format.Format, err = s.joining(format.Format); err != nil {
		return nil, err
	}
	groups, err := dataset.NewGroups(ctx, data, format)
	if err != nil {
		return nil, err
	}
	in := &explorer.Input{Name: b.Name, Data: groups, PerStep: b.PerStep(), Explorer: OwnName(s.Settled)}
	if k, n := s.Explorer.Part(); n > 1 {
		in.Data = explorer.ShareOfGroups(groups, k, n)
	}
	if in.Data.Len() == 0 {
		return nil, fmt.Errorf("%s has %d groups, and none of them is in the share %s", data.Name(), groups.Len(), s.Explorer.Share)
	}
	switch {
	case b.TotalSteps != nil:
		in.Limit = int64(*b.TotalSteps) * int64(in.PerStep)
	case b.TotalEpochs != nil:
		in.Limit = int64(*b.TotalEpochs) * int64(in.Data.Len())
	}
	in.Selector, err = openSelector(&b.DataSelector, in.Data)
	return in, err
}

// joining returns a formatter that refuses experiences that the run cannot train on beside its own
// rollouts.
func (s *Reader) joining(format formatter) (formatter, error) {
	model, err := model.ReadConfig(s.ModelPath)
	if err != nil {
		return nil, err
	}
	logprobs, err := s.Algorithm.ReadsLogprobs()
	if err != nil {
		return nil, err
	}
	logprobs = logprobs || s.Method.Recomputes // to correct for the policy that sampled
	fits := func(e *trinity.Experience) error {
		if e.PromptLen < 0 || e.PromptLen > len(e.Tokens) {
			return fmt.Errorf("prompt_len is %d, of %d tokens", e.PromptLen, len(e.Tokens))
		}
		for at, token := range e.Tokens {
			if token < 0 || int(token) >= model.VocabSize {
				return fmt.Errorf("token %d at position %d is outside the vocabulary of %d: it belongs to another model",
					token, at, model.VocabSize)
			}
		}
		if logprobs && e.Logprobs == nil && e.TrainedTokens() > 0 {
			return fmt.Errorf("it has no log-probabilities of the policy that sampled it, which algorithm %s reads: "+
				"use experiences that a run wrote, or a policy_loss_fn that reads none, such as opmd", s.Algorithm.Def.Type)
		}
		return nil
	}
	return func(row map[string]any) ([]*trinity.Experience, error) {
		exps, err := format(row)
		if err != nil {
			return nil, err
		}
		for _, e := range exps {
			if err := fits(e); err != nil {
				return nil, err
			}
			if e.Prompt == "" {
				e.Prompt = s.Text.Decode(e.Tokens[:e.PromptLen])
			}
		}
		return exps, nil
	}, nil
}
