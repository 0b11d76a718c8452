// Package pipeline edits groups between explorer and buffer: it applies operators in order, then
// the algorithm's advantage. It can keep copies of its input and of its output.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience/archive"
	"github.com/trinity-go/trinity/internal/experience/ledger"
)

// Pipeline processes the groups of every step.
type Pipeline struct {
	Operators []Operator
	Advantage trinity.Advantage // nil if the algorithm has none
	Input     *archive.Writer   // stores the input of a step; nil keeps no copy
	Output    *archive.Writer   // stores the output of a step; nil keeps no copy
	// Say gets a line if less than half of a step is left, and one for every entry of Info that
	// JSON cannot express.
	Say func(string)
	// Ledger records what the pipeline got, dropped and left in a step; nil records nothing.
	Ledger func(ledger.Step) error
	Tracer trinity.Tracer // nil: nobody is told
}

// Operator is a trinity.Operator with its name in the configuration.
type Operator struct {
	Name string
	trinity.Operator
}

// Process returns the remaining groups of a step, in order, and metrics: experience_pipeline/… from
// the operators and the advantage, and time/experience_pipeline/… in seconds for each operator and
// in total.
func (p *Pipeline) Process(ctx context.Context, step int64, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	begin := time.Now()
	p.clean(step, "a workflow", groups)
	if err := save(ctx, p.Input, "input_save_path", step, groups); err != nil {
		return nil, nil, err
	}
	metrics, said := trinity.Metrics{}, trinity.Metrics{}
	losses, drops := newLosses(step, groups), drops{step: step}
	for i, part := range p.parts() {
		var before trinity.Group
		if p.Tracer != nil {
			before = slices.Concat(groups...) // a part may edit the groups
		}
		start := time.Now()
		kept, m, err := part.Process(ctx, groups)
		if err != nil {
			return nil, nil, fmt.Errorf("operator %d, %s: %w", i, part.Name, err)
		}
		metrics[fmt.Sprintf("time/experience_pipeline/operator/%d_%s", i, part.Name)] = time.Since(start).Seconds()
		if p.Tracer != nil {
			p.Tracer.Span(trinity.Span{
				Role: trinity.RoleExplorer, Kind: trinity.SpanOperator, Name: part.Name, Step: step, Begin: start, End: time.Now(),
			})
		}
		groups = slices.DeleteFunc(kept, func(g trinity.Group) bool { return len(g) == 0 })
		p.clean(step, fmt.Sprintf("operator %d, %s", i, part.Name), groups)
		losses.note(part.Name, groups)
		if p.Tracer != nil {
			drops.note(part.Name, before, groups)
		}
		merge(said, m)
	}
	if err := save(ctx, p.Output, "output_save_path", step, groups); err != nil {
		return nil, nil, err
	}
	if p.Ledger != nil {
		if err := p.Ledger(losses.record()); err != nil {
			return nil, nil, err
		}
	}
	said["experience_count"] = float64(count(groups))
	metrics.Merge("experience_pipeline/", said)
	metrics["time/experience_pipeline/total"] = time.Since(begin).Seconds()
	if p.Tracer != nil {
		drops.tell(p.Tracer)
	}
	if losses.starve() {
		p.Say(losses.String())
	}
	return groups, metrics, nil
}

// save stores a step in a copy; w may be nil.
func save(ctx context.Context, w *archive.Writer, key string, step int64, groups []trinity.Group) error {
	if w == nil {
		return nil
	}
	if err := w.Write(ctx, step, groups); err != nil {
		return fmt.Errorf("data_processor.experience_pipeline.%s: %w", key, err)
	}
	return nil
}

// Close closes the copies.
func (p *Pipeline) Close() error {
	var errs []error
	for _, w := range []*archive.Writer{p.Input, p.Output} {
		if w != nil {
			errs = append(errs, w.Close())
		}
	}
	return errors.Join(errs...)
}

// parts returns the operators, followed by the advantage.
func (p *Pipeline) parts() []Operator {
	if p.Advantage == nil {
		return p.Operators
	}
	return append(slices.Clone(p.Operators), Operator{"advantage", advantage{p.Advantage}})
}

// advantage adapts a trinity.Advantage to an operator.
type advantage struct{ trinity.Advantage }

func (a advantage) Process(ctx context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return a.Advantages(ctx, groups)
}

// merge adds m to metrics. It sums counts, such as filtered_count, over the parts of the pipeline.
// For other metrics it keeps the value of the last part.
func merge(metrics, m trinity.Metrics) {
	for name, v := range m {
		if strings.HasSuffix(name, "_count") {
			v += metrics[name]
		}
		metrics[name] = v
	}
}

func count(groups []trinity.Group) int {
	n := 0
	for _, g := range groups {
		n += len(g)
	}
	return n
}
