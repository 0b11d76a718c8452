package taskset

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/operator/datajuicer"
)

// numberField holds the number of a row while Data-Juicer processes it.
const numberField = "trinity_row_number"

// juicerPass runs some of the operators in Data-Juicer. Its service works on files and may reorder
// rows, so juicerPass sorts what comes back into the original order. It also keeps the rows as they
// were sent, because Data-Juicer's tables fill in missing fields and give all values of a field one
// type.
type juicerPass struct {
	service   *datajuicer.Service
	operators []Operator
	fields    []string
	processes int
	dir       string // for temporary files

	where []fmt.Stringer   // places of the rows sent
	kept  *dataset.Dataset // rows sent
	back  *dataset.Dataset // rows that came back
	order []int            // indices into back, in the original order
	at    int              // index into order of the next row
}

// name names the operators in reports.
func (e *juicerPass) name() string {
	var names []string
	for _, o := range e.operators {
		names = append(names, o.Name)
	}
	return strings.Join(names, ", ") + " (Data-Juicer)"
}

// run processes the rows that fill passes to its sink.
func (e *juicerPass) run(ctx context.Context, fill func(sink func(*trinity.TaskRow) error) error) error {
	if err := errors.Join(e.close(), os.MkdirAll(e.dir, 0o755)); err != nil { // a killed run may have left files
		return err
	}
	in, err := filepath.Abs(filepath.Join(e.dir, "input.jsonl"))
	if err != nil {
		return err
	}
	kept := filepath.Join(e.dir, "kept.jsonl")
	if err := e.write(in, kept, fill); err != nil || len(e.where) == 0 {
		return err
	}
	settings := datajuicer.Settings{Type: "task", Processes: e.processes, Inputs: []string{in}, OutputDir: filepath.Dir(in),
		TargetFields: e.fields, TopK: -1}
	for _, o := range e.operators {
		settings.Operators = append(settings.Operators, map[string]map[string]any{o.Name: o.Args})
	}
	session, err := e.service.Open(ctx, settings)
	if err != nil {
		return err
	}
	left, err := session.ProcessTask(ctx)
	if err != nil || left == 0 {
		return err
	}
	if e.kept, err = dataset.Open(ctx, kept, dataset.Options{}); err != nil {
		return err
	}
	if e.back, err = dataset.Open(ctx, filepath.Join(e.dir, "output.jsonl"), dataset.Options{}); err != nil {
		return fmt.Errorf("reading Data-Juicer's output: %w: does its service run on this machine?", err)
	}
	return e.sort()
}

// write writes the rows to Data-Juicer's input, each with its number, and unchanged to the file
// kept.
func (e *juicerPass) write(in, kept string, fill func(sink func(*trinity.TaskRow) error) error) (err error) {
	var files [2]*json.Encoder
	for i, path := range []string{in, kept} {
		f, failed := os.Create(path)
		if failed != nil {
			return failed
		}
		w := bufio.NewWriterSize(f, 1<<20)
		defer func() { err = errors.Join(err, w.Flush(), f.Close()) }()
		files[i] = json.NewEncoder(w)
	}
	return fill(func(row *trinity.TaskRow) error {
		fields := maps.Clone(row.Row)
		delete(fields, statsField)
		fields[numberField] = len(e.where)
		e.where = append(e.where, row.Where)
		err := errors.Join(files[0].Encode(fields), files[1].Encode(map[string]any{"row": row.Row, "stats": row.Stats}))
		if err != nil {
			return fmt.Errorf("%s: %w", row.Where, err)
		}
		return nil
	})
}

// sort finds the original order of the rows.
func (e *juicerPass) sort() error {
	numbers := make([]int64, e.back.Len())
	for i := range numbers {
		row, err := e.back.Row(i)
		if err != nil {
			return err
		}
		n, ok := row[numberField].(int64)
		if !ok || n < 0 || n >= int64(len(e.where)) {
			return fmt.Errorf("%s: %s is %v: an operator of Data-Juicer changed it", e.back.Where(i), numberField, row[numberField])
		}
		numbers[i], e.order = n, append(e.order, i)
	}
	slices.SortStableFunc(e.order, func(a, b int) int { return cmp.Compare(numbers[a], numbers[b]) })
	return nil
}

// next returns the next row that is left, and io.EOF after the last.
func (e *juicerPass) next() (*trinity.TaskRow, error) {
	if e.at == len(e.order) {
		return nil, io.EOF
	}
	got, err := e.back.Row(e.order[e.at])
	if err != nil {
		return nil, err
	}
	e.at++
	number := int(got[numberField].(int64))
	sent, err := e.kept.Row(number)
	if err != nil {
		return nil, err
	}
	row := &trinity.TaskRow{Row: sent["row"].(map[string]any), Stats: sent["stats"].(map[string]any), Where: e.where[number]}
	merge(row, got)
	return row, nil
}

// merge overwrites the row with the fields that came back, except for Data-Juicer's own fields and
// for scores, which this package computes.
func merge(row *trinity.TaskRow, got map[string]any) {
	for name, v := range got {
		own := name == numberField || written[name] || strings.HasPrefix(name, "__dj__") || strings.HasSuffix(name, "_score_detail")
		if !own && v != nil {
			row.Row[name] = v
		}
	}
	stats, _ := got[statsField].(map[string]any)
	for name, v := range stats {
		if v != nil {
			row.Stats[name] = v
		}
	}
}

// close removes the temporary files.
func (e *juicerPass) close() error { return os.RemoveAll(e.dir) }
