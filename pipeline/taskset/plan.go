package taskset

import (
	"fmt"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// Check reports the first operator that cannot be built, an input that is not there, and an output that is not the pipeline's own. Nothing is read or asked. made
// is as [Recipe.Made] has it.
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

// Plan says in words what Make will do with so many rows.
func (r *Recipe) Plan(rows int) ([]string, error) {
	words := []string{fmt.Sprintf("%d rows of %s", rows, strings.Join(r.Inputs, ", "))}
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
		if _, asks := op.(trinity.TaskToolUser); asks {
			line += ", which asks others about every row that is left, unless it did before"
		}
		words = append(words, line)
	}
	w := r.Weights
	words = append(words, fmt.Sprintf("ordered by difficulty × %g + diversity × %g + quality × %g + uses × %g", w.Difficulty, w.Diversity, w.Quality, w.UsageFrequency))
	if r.TopK >= 0 {
		words = append(words, fmt.Sprintf("the first %d rows", r.TopK))
	}
	return append(words, "written to "+r.File()), nil
}
