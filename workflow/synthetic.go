package workflow

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Workflows.Register("synthetic_workflow",
		"Asks nobody: each rollout is a sequence of `max_model_len` tokens `dummy_token` with reward 0, to try how long a sequence a trainer "+
			"can take.",
		func() trinity.Workflow { return &synthetic{MaxModelLen: 4096, PromptLen: 2048, DummyToken: 1024} })
}

// synthetic makes sequences that no model has written.
type synthetic struct {
	MaxModelLen int   `yaml:"max_model_len" doc:"tokens of a sequence"`
	PromptLen   int   `yaml:"prompt_len" range:"[1,)" doc:"of these, tokens of the prompt"`
	DummyToken  int32 `yaml:"dummy_token" range:"[0,)" doc:"the token"`
}

// Validate checks the arguments.
func (w *synthetic) Validate() error {
	if w.PromptLen >= w.MaxModelLen {
		return fmt.Errorf("want prompt_len < max_model_len, got %d and %d", w.PromptLen, w.MaxModelLen)
	}
	return nil
}

// Run implements [trinity.Workflow].
func (w *synthetic) Run(_ context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	n := w.MaxModelLen
	e := &trinity.Experience{
		ID: r.Model.ID, Tokens: make([]int32, n), Mask: make([]bool, n), Logprobs: make([]float32, n), PromptLen: w.PromptLen,
		Temperature: r.Model.Params.Temperature, Reward: trinity.Reward{Valid: true},
	}
	for i := range e.Tokens {
		e.Tokens[i], e.Mask[i] = w.DummyToken, i >= w.PromptLen
	}
	return []*trinity.Experience{e}, nil
}
