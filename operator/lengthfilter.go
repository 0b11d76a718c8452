package operator

import (
	"context"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("length_filter",
		"Keeps experiences whose prompt and response have numbers of tokens within the bounds, inclusive. "+
			"The response is everything after the prompt, including the answers of an environment. Metric: "+
			"filtered_count.",
		func() trinity.Operator { return &lengthFilter{} })
}

// lengthFilter drops experiences with too short or too long prompts or responses.
type lengthFilter struct {
	MinPrompt   *int `yaml:"min_prompt_tokens" range:"[0,)" doc:"tokens; default: no bound"`
	MaxPrompt   *int `yaml:"max_prompt_tokens" range:"[0,)" doc:"tokens; default: no bound"`
	MinResponse *int `yaml:"min_response_tokens" range:"[0,)" doc:"tokens; default: no bound"`
	MaxResponse *int `yaml:"max_response_tokens" range:"[0,)" doc:"tokens; default: no bound"`
}

// Validate requires a bound, and bounds that do not contradict each other.
func (f *lengthFilter) Validate() error {
	if f.MinPrompt == nil && f.MaxPrompt == nil && f.MinResponse == nil && f.MaxResponse == nil {
		return errors.New("set at least one of min_prompt_tokens, max_prompt_tokens, min_response_tokens, max_response_tokens")
	}
	for _, b := range []struct {
		of       string
		min, max *int
	}{{"prompt", f.MinPrompt, f.MaxPrompt}, {"response", f.MinResponse, f.MaxResponse}} {
		if b.min != nil && b.max != nil && *b.min > *b.max {
			return fmt.Errorf("min_%s_tokens %d is more than max_%s_tokens %d: no experience would remain", b.of, *b.min, b.of, *b.max)
		}
	}
	return nil
}

// Process implements trinity.Operator.
func (f *lengthFilter) Process(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	kept, metrics := keep(groups, func(e *trinity.Experience) bool {
		return within(e.PromptLen, f.MinPrompt, f.MaxPrompt) && within(e.ResponseLen(), f.MinResponse, f.MaxResponse)
	})
	return kept, metrics, nil
}

func within(n int, low, high *int) bool {
	return (low == nil || n >= *low) && (high == nil || n <= *high)
}
