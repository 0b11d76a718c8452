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
	"github.com/trinity-go/trinity/datajuicer"
	"github.com/trinity-go/trinity/dataset"
)

// numberField is the number of a row, while it is at Data-Juicer's.
const numberField = "trinity_row_number"

// errand has Data-Juicer do a part of the operators. Its service works on files and orders rows as it likes; what comes back is put in the order in which it
// went there. What went is kept here as it was: as a table knows no missing fields, and has one type for each, it does not come back so.
type errand struct {
	service   *datajuicer.Service
	operators []Operator
	fields    []string
	processes int
	dir       string // for files in between

	where []fmt.Stringer   // of the rows that went
	kept  *dataset.Dataset // what went
	back  *dataset.Dataset // what came back
	order []int            // places in back, in the order in which the rows went
	at    int              // in order
}

// name says in reports what is done.
func (e *errand) name() string {
	var names []string
	for _, o := range e.operators {
		names = append(names, o.Name)
	}
	return strings.Join(names, ", ") + " (Data-Juicer)"
}

// run takes the rows that fill gives and has them processed.
func (e *errand) run(ctx context.Context, fill func(sink func(*trinity.TaskRow) error) error) error {
	if err := errors.Join(e.close(), os.MkdirAll(e.dir, 0o755)); err != nil { // a run that was killed may have left some
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
	settings := datajuicer.Settings{Type: "task", Processes: e.processes, Inputs: []string{in}, OutputDir: filepath.Dir(in), TargetFields: e.fields, TopK: -1}
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
	if e.kept, err = dataset.Open(kept, dataset.Options{}); err != nil {
		return err
	}
	if e.back, err = dataset.Open(filepath.Join(e.dir, "output.jsonl"), dataset.Options{}); err != nil {
		return fmt.Errorf("Data-Juicer's output, if its service is on this machine: %w", err)
	}
	return e.sort()
}

// write puts the rows into Data-Juicer's input, each with its number, and into the file of what is kept.
func (e *errand) write(in, kept string, fill func(sink func(*trinity.TaskRow) error) error) (err error) {
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

// sort finds the order in which the rows went.
func (e *errand) sort() error {
	numbers := make([]int64, e.back.Len())
	for i := range numbers {
		row, err := e.back.Row(i)
		if err != nil {
			return err
		}
		n, ok := row[numberField].(int64)
		if !ok || n < 0 || n >= int64(len(e.where)) {
			return fmt.Errorf("%s: %s is %v: an operator of Data-Juicer has changed it", e.back.Where(i), numberField, row[numberField])
		}
		numbers[i], e.order = n, append(e.order, i)
	}
	slices.SortStableFunc(e.order, func(a, b int) int { return cmp.Compare(numbers[a], numbers[b]) })
	return nil
}

// next reads the rows that are left.
func (e *errand) next() (*trinity.TaskRow, error) {
	if e.at == len(e.order) {
		return nil, io.EOF
	}
	got, err := e.back.Row(e.order[e.at])
	if err != nil {
		return nil, err
	}
	e.at++
	number := int(got[numberField].(int64))
	went, err := e.kept.Row(number)
	if err != nil {
		return nil, err
	}
	row := &trinity.TaskRow{Row: went["row"].(map[string]any), Stats: went["stats"].(map[string]any), Where: e.where[number]}
	merge(row, got)
	return row, nil
}

// merge writes what came back over what went, but for fields that Data-Juicer keeps for itself, and scores, which are made here.
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

// close removes the files in between.
func (e *errand) close() error { return os.RemoveAll(e.dir) }
