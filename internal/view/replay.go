package view

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// Record is what a run keeps of a train step.
type Record struct {
	Step    int64
	Metrics trinity.Metrics // nil if the run has no metrics.jsonl
	Rows    []trace.Row     // of the trace; nil if it does not have the step
	texts   map[int32]string
}

// ReadRecord reads what the directory of a run or of a stage has of a train step.
func ReadRecord(dir string, step int64) (*Record, error) {
	r := &Record{Step: step}
	home := filepath.Join(dir, rundir.Monitor)
	table, err := rundir.ReadTable(home, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	last := int64(0)
	for rec := range table.Records() {
		if rec.Role != trinity.RoleTrainer {
			continue
		}
		if last = max(last, rec.Step); rec.Step == step {
			r.Metrics = rec.Metrics
		}
	}
	traces := filepath.Join(dir, rundir.Traces)
	steps, err := trace.Steps(traces)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if slices.Contains(steps, step) {
		if r.Rows, err = trace.ReadStep(traces, step); err != nil {
			return nil, err
		}
	} else if r.Metrics == nil {
		return nil, fmt.Errorf("%s has no train step %d: its last one is %d", filepath.Join(home, rundir.MetricsFile), step, last)
	}
	r.texts, err = trace.ReadTexts(traces)
	return r, err
}

// Difference is a value that has other bits than the recorded one.
type Difference struct {
	Where           string // the metric, or the answer with its token and the column
	Recorded, Again string
}

func (d *Difference) String() string {
	return fmt.Sprintf("%s is %s as recorded, and %s when trained again", d.Where, d.Recorded, d.Again)
}

// Compare looks for the values of a train step that have other bits when it is trained again. It
// returns the first difference, nil for none, and writes what it has compared.
func (r *Record) Compare(w io.Writer, metrics trinity.Metrics, again []trace.Row) (*Difference, error) {
	answers, err := r.compareRows(w, again)
	if err != nil {
		return nil, err
	}
	numbers, err := r.compareMetrics(w, metrics)
	return cmp.Or(answers, numbers), err
}

// compareRows compares the answers of the trace.
func (r *Record) compareRows(w io.Writer, again []trace.Row) (first *Difference, err error) {
	if r.Rows == nil {
		_, err = fmt.Fprintf(w, "the trace does not have train step %d (monitor.trace): only its metrics are compared\n", r.Step)
		return nil, err
	}
	places := placesOf(again)
	answers, differing := map[string]bool{}, map[string]bool{}
	differs := func(row *trace.Row, d *Difference) {
		answers[row.ID] = true
		if d != nil {
			first, differing[row.ID] = cmp.Or(first, d), true
		}
	}
	groups := map[group]bool{}
	for place, row := range placed(r.Rows) {
		groups[groupOf(row)] = true
		if other, ok := places[place]; ok {
			differs(row, differenceOf(whereIs(row), row, other, r.texts))
		} else {
			differs(row, &Difference{whereIs(row), "in the trace", "not in the batch"})
		}
	}
	kept := placesOf(r.Rows)
	for place, row := range placed(again) { // a trace has whole groups, though not each copy of a group
		if place.nth == 1 && kept[place] == nil && groups[groupOf(row)] {
			differs(row, &Difference{whereIs(row), "not in the trace", "in the batch"})
		}
	}
	return first, count(w, "answers of the trace, with every stream and derivative of every token", len(answers), len(differing))
}

// group identifies the answers to a task.
type group struct {
	step int64
	task string
}

func groupOf(row *trace.Row) group { return group{row.ExploreStep, row.Task} }

// whereIs names the answer of a row, and the optimizer step.
func whereIs(row *trace.Row) string {
	if row.Update < 0 {
		return "answer " + row.ID
	}
	return fmt.Sprintf("answer %s, optimizer step %d", row.ID, row.Update)
}

// place identifies a row of a train step. A replay buffer may give an answer twice.
type place struct {
	id     string
	update int64
	nth    int
}

func placesOf(rows []trace.Row) map[place]*trace.Row { return maps.Collect(placed(rows)) }

// placed returns the rows with their places, in order.
func placed(rows []trace.Row) func(yield func(place, *trace.Row) bool) {
	return func(yield func(place, *trace.Row) bool) {
		seen := map[place]int{}
		for i := range rows {
			at := place{id: rows[i].ID, update: rows[i].Update}
			seen[at]++
			at.nth = seen[at]
			if !yield(at, &rows[i]) {
				return
			}
		}
	}
}

// differenceOf returns the first column in which two rows differ, and the first token; nil if none does.
func differenceOf(where string, recorded, again *trace.Row, texts map[int32]string) (first *Difference) {
	eachColumn(reflect.ValueOf(recorded).Elem(), reflect.ValueOf(again).Elem(), func(name string, was, is reflect.Value) {
		if first != nil || was.Kind() == reflect.Pointer && was.IsNil() && is.IsNil() {
			return
		}
		if was.Kind() != reflect.Slice {
			if a, b := exactly(was), exactly(is); a != b {
				first = &Difference{where + ": " + name, a, b}
			}
			return
		}
		if sameBits(was.Interface(), is.Interface()) {
			return
		}
		for t := range max(was.Len(), is.Len()) {
			a, b := item(was, t), item(is, t)
			if a == b {
				continue
			}
			token := ""
			if t < len(recorded.Tokens) {
				token = fmt.Sprintf(" %q", texts[recorded.Tokens[t]])
			}
			first = &Difference{fmt.Sprintf("%s, token %d%s: %s", where, t, token, name), a, b}
			return
		}
	})
	return first
}

// sameBits reports whether two columns of tokens are equal.
func sameBits(a, b any) bool {
	if floats, ok := a.(trace.Floats); ok {
		return slices.EqualFunc(floats, b.(trace.Floats), func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
	}
	return reflect.DeepEqual(a, b)
}

// eachColumn visits the columns of two rows.
func eachColumn(a, b reflect.Value, visit func(name string, a, b reflect.Value)) {
	for i := range a.NumField() {
		f := a.Type().Field(i)
		if f.Anonymous {
			eachColumn(a.Field(i), b.Field(i), visit)
			continue
		}
		visit(f.Tag.Get("json"), a.Field(i), b.Field(i))
	}
}

// item returns a token's entry of a column, with all of its bits.
func item(list reflect.Value, t int) string {
	if t >= list.Len() {
		return "missing"
	}
	return exactly(list.Index(t))
}

// exactly writes a value with all of its bits.
func exactly(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return "missing"
		}
		return exactly(v.Elem())
	case reflect.String:
		return fmt.Sprintf("%q", v.String())
	case reflect.Float32:
		return fmt.Sprint(float32(v.Float()))
	}
	return fmt.Sprint(v.Interface())
}

// compareMetrics compares the metrics of the step but times, speeds and evaluations.
func (r *Record) compareMetrics(w io.Writer, again trinity.Metrics) (first *Difference, err error) {
	if r.Metrics == nil {
		_, err = fmt.Fprintf(w, "the run has no metrics of train step %d: only its answers are compared\n", r.Step)
		return nil, err
	}
	compared, differing := 0, 0
	all := maps.Clone(r.Metrics)
	maps.Copy(all, again)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !isReproducible(name) {
			continue
		}
		compared++
		if was, is := valueOf(r.Metrics, name), valueOf(again, name); was != is {
			first, differing = cmp.Or(first, &Difference{"metric " + name, was, is}), differing+1
		}
	}
	return first, count(w, "metrics", compared, differing)
}

// valueOf returns a metric with all of its bits.
func valueOf(m trinity.Metrics, name string) string {
	v, ok := m[name]
	if !ok {
		return "missing"
	}
	return fmt.Sprint(v)
}

// count writes how many things were compared.
func count(w io.Writer, what string, compared, differing int) error {
	if differing == 0 {
		_, err := fmt.Fprintf(w, "%d %s: same bits\n", compared, what)
		return err
	}
	_, err := fmt.Fprintf(w, "%d %s: %d have other bits\n", compared, what, differing)
	return err
}

// isReproducible reports whether a metric of a train step follows from the batch and the weights.
func isReproducible(name string) bool {
	return !strings.HasPrefix(name, "time/") && !strings.HasPrefix(name, "eval/") && name != "perf/time_per_step" && name != "perf/throughput"
}
