package rows

import (
	"context"
	"regexp"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("regex_filter",
		"Keeps rows whose text has a match of a regular expression (RE2 syntax, at any position). "+
			"Data-Juicer has no such filter.",
		func() trinity.TaskOperator { return &regexFilter{TextKey: TextKey{"text"}} })
}

// regexFilter filters by a regular expression.
type regexFilter struct {
	TextKey  `yaml:",inline"`
	Pattern  string `yaml:"pattern" required:"write a regular expression" doc:"regular expression; the prefix (?i) ignores letter case"`
	Reversed bool   `yaml:"reversed_range" doc:"keep the rows without a match"`
}

// Validate requires a valid expression.
func (f *regexFilter) Validate() error {
	_, err := regexp.Compile(f.Pattern)
	return err
}

// Process implements trinity.TaskOperator.
func (f *regexFilter) Process(_ context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	pattern, err := regexp.Compile(f.Pattern)
	if err != nil {
		return nil, err
	}
	return keep(rows, func(r *trinity.TaskRow) (bool, error) {
		s, err := f.text(r)
		return pattern.MatchString(s) != f.Reversed, err
	})
}
