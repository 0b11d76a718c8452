// Package taskset makes a taskset before the run: it passes the rows of files through operators,
// gives each a priority, and writes the best rows to a file, as a whole or not at all.
package taskset

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/operator/datajuicer"
	"github.com/trinity-go/trinity/operator/rows"
	"github.com/trinity-go/trinity/registry"
)

// Recipe describes how to make a taskset.
type Recipe struct {
	Inputs    []string // files, or directories with files
	Operators []Operator
	Fields    []string // fields that every row must have; the first is the text_key of operators without one
	Weights   Weights
	TopK      int    // number of rows to keep, the best ones; negative keeps all
	Output    string // a .jsonl file, or the directory for output.jsonl

	Juicer *datajuicer.Service `json:"-"` // runs the operators that are not built in; nil if there is no service
}

// Operator names an operator in registry.TaskOperators, or of Data-Juicer, with its arguments.
type Operator struct {
	Name string         `json:"name"`
	Args map[string]any `json:"args"`
}

// Host holds what Make needs of the program around it.
type Host struct {
	Open     func(path string) (*dataset.Dataset, error)
	Parallel int                     // concurrent questions to a model, and processes of Data-Juicer
	Say      func(string)            // prints a line for people
	Progress func(done, total int64) // rows; may be nil
}

// File returns the path of the taskset.
func (r *Recipe) File() string {
	if strings.HasSuffix(r.Output, ".jsonl") {
		return r.Output
	}
	return filepath.Join(r.Output, "output.jsonl")
}

// work returns the directory beside the output for temporary files, answers and the manifest.
// Readers of datasets skip it because its name begins with a dot.
func (r *Recipe) work() string {
	return filepath.Join(filepath.Dir(r.File()), ".task_pipeline_"+strings.TrimSuffix(filepath.Base(r.File()), ".jsonl"))
}

// Make writes the taskset, unless it is up to date with settings and inputs. If another process is
// making it, Make waits for that process. After a kill Make starts again, but asks no model twice.
func (r *Recipe) Make(ctx context.Context, host Host) (*Report, error) {
	if err := os.MkdirAll(r.work(), 0o755); err != nil {
		return nil, err
	}
	lock, err := r.lock(ctx, host.Say)
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	made, err := r.Check()
	if err != nil || made != nil {
		return made, err
	}
	return r.make(ctx, host)
}

// lock waits until no other process makes the taskset. There is no deadline, because operators may
// ask a model or people.
func (r *Recipe) lock(ctx context.Context, say func(string)) (*durable.Lock, error) {
	for told := false; ; told = true {
		lock, err := durable.TakeLock(r.work(), "make", "")
		var other durable.Held
		if !errors.As(err, &other) {
			return lock, err
		}
		if !told {
			say(fmt.Sprintf("task pipeline: waiting for %[2]s, which is making %[1]s", r.File(), other))
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// make reads, processes, scores and writes the rows.
func (r *Recipe) make(ctx context.Context, host Host) (_ *Report, err error) {
	inputs, err := stamps(r.Inputs)
	if err != nil {
		return nil, err
	}
	answers, err := durable.OpenAnswers(filepath.Join(r.work(), "answers"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, answers.Close()) }()
	out, err := newSpool(filepath.Join(r.work(), "rows"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, out.close()) }()
	report := &Report{Output: r.File()}
	scores := &scores{weights: r.Weights}
	rows := &reader{paths: r.Inputs, open: host.Open, progress: host.Progress}
	err = r.process(ctx, host, answers, report, rows, func(row *trinity.TaskRow) error {
		data, err := encode(row)
		if err != nil {
			return err
		}
		scores.add(row)
		return out.add(data)
	})
	if err != nil {
		return nil, err
	}
	report.Read, report.Idle = int(rows.read), scores.idle()
	order := scores.order(r.TopK)
	report.Dropped = append(report.Dropped, Loss{"top_k", len(scores.rows) - len(order)})
	if report.Rows = len(order); report.Rows == 0 {
		return nil, fmt.Errorf("the task pipeline leaves no rows of %s: %s", strings.Join(r.Inputs, ", "), report.losses())
	}
	return report, r.write(inputs, report, func(i int) ([]byte, error) {
		data, err := out.get(order[i])
		if err != nil {
			return nil, err
		}
		return scores.append(data, order[i]), nil
	})
}

// process passes the rows through all operators, and the remaining rows to sink.
func (r *Recipe) process(
	ctx context.Context, host Host, answers *durable.Answers, report *Report, in *reader, sink func(*trinity.TaskRow) error,
) (err error) {
	tools := rows.Tools{Answers: answers, Parallel: host.Parallel, Say: host.Say}
	next, ops := in.next, []operator{{"target_fields", having(r.Fields)}}
	for i, part := range r.parts() {
		if part.native {
			if ops, err = r.build(ops, part.operators, tools); err != nil {
				return err
			}
			continue
		}
		e := &juicerPass{service: r.Juicer, operators: part.operators, fields: r.Fields, processes: host.Parallel,
			dir: filepath.Join(r.work(), fmt.Sprint("data_juicer_", i))}
		defer func() { err = errors.Join(err, e.close()) }()
		if err := e.run(ctx, func(sink func(*trinity.TaskRow) error) error { return report.pass(ctx, next, ops, sink) }); err != nil {
			return err
		}
		report.Dropped = append(report.Dropped, Loss{e.name(), len(e.where) - len(e.order)})
		next, ops = e.next, nil
	}
	return report.pass(ctx, next, ops, sink)
}

// part is a sequence of operators, either all built in or all in Data-Juicer.
type part struct {
	native    bool
	operators []Operator
}

// parts splits the operators into sequences that are all built in or all in Data-Juicer.
func (r *Recipe) parts() (parts []part) {
	for _, o := range r.Operators {
		native := registry.TaskOperators.Has(o.Name)
		if len(parts) == 0 || parts[len(parts)-1].native != native {
			parts = append(parts, part{native: native})
		}
		last := &parts[len(parts)-1]
		last.operators = append(last.operators, o)
	}
	return parts
}

// finisher is an operator with work to do after the last row.
type finisher interface{ Finish() }

// build appends built-in operators to ops.
func (r *Recipe) build(ops []operator, more []Operator, tools rows.Tools) ([]operator, error) {
	for _, o := range more {
		var defaults map[string]any
		if len(r.Fields) > 0 && takesText(o.Name) {
			defaults = map[string]any{"text_key": r.Fields[0]}
		}
		op, err := registry.TaskOperators.Build(o.Name, defaults, o.Args)
		if err != nil {
			return nil, err
		}
		if u, ok := op.(rows.ToolUser); ok {
			u.UseTools(tools)
		}
		ops = append(ops, operator{o.Name, op})
	}
	return ops, nil
}

// takesText reports whether the operator called name has the argument text_key.
func takesText(name string) bool {
	info, err := registry.TaskOperators.Explain(name)
	if err != nil {
		return false // Build reports why
	}
	for _, f := range info.Fields {
		if f.Key == "text_key" {
			return true
		}
	}
	return false
}

// having is an operator that keeps rows with all these fields.
type having []string

func (fields having) Process(_ context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	var kept []*trinity.TaskRow
	for _, r := range rows {
		has := true
		for _, key := range fields {
			v, ok := (&trinity.Task{Row: r.Row}).Field(key)
			has = has && ok && v != nil
		}
		if has {
			kept = append(kept, r)
		}
	}
	return kept, nil
}
