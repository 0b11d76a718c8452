package taskset

import (
	"fmt"
	"strings"

	"github.com/trinity-go/trinity/operator/rows"
	"github.com/trinity-go/trinity/registry"
)

// Check returns an error for the first operator that cannot be built, for an input that does not
// exist, and for an output that no task pipeline wrote. It reads no rows and asks no model. made is
// the result of [Recipe.Made].
func (r *Recipe) Check() (made *Report, err error) {
	for _, part := range r.parts() {
		if !part.native && r.Juicer != nil {
			continue
		}
		for _, o := range part.operators {
			if _, err := registry.TaskOperators.Build(o.Name, o.Args); err != nil {
				return nil, fmt.Errorf("%w; if it is one of Data-Juicer's, set service.data_juicer.server_url or auto_start", err)
			}
		}
	}
	if _, err := stamps(r.Inputs); err != nil {
		return nil, err
	}
	return r.Made()
}

// Plan describes in words what Make will do with n rows.
func (r *Recipe) Plan(n int) ([]string, error) {
	words := []string{fmt.Sprintf("%d rows of %s", n, strings.Join(r.Inputs, ", "))}
	for _, o := range r.Operators {
		if !registry.TaskOperators.Has(o.Name) {
			words = append(words, o.Name+", by Data-Juicer")
			continue
		}
		op, err := registry.TaskOperators.Build(o.Name, o.Args)
		if err != nil {
			return nil, err
		}
		line := o.Name
		if _, asks := op.(rows.ToolUser); asks {
			line += ", which asks a model or people about every remaining row that has no answer yet"
		}
		words = append(words, line)
	}
	w := r.Weights
	words = append(words, fmt.Sprintf("ordered by difficulty × %g + diversity × %g + quality × %g + uses × %g", w.Difficulty,
		w.Diversity, w.Quality, w.UsageFrequency))
	if r.TopK >= 0 {
		words = append(words, fmt.Sprintf("the first %d rows", r.TopK))
	}
	return append(words, "written to "+r.File()), nil
}
