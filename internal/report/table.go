package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity/internal/rundir"
)

// WriteCSV writes the metrics of the runs at or below dirs as a table: a line for each step of a run with the
// columns run, step and the metrics. Without names it has all metrics. A run is called by its path from dir,
// or by its whole path if others have that name too; of several explorers the values are means.
func WriteCSV(w io.Writer, names []string, dirs ...string) error {
	type source struct {
		name   string
		whole  string // the name with the path to the directory
		tables []rundir.Table
	}
	var runs []source
	wanted := func(name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	there := map[string]bool{}
	for _, dir := range dirs {
		found, err := rundir.Open(dir)
		if err != nil {
			return err
		}
		if len(found.Stages) == 0 {
			return fmt.Errorf("%s: %w in a %s: is it the directory of a run that has begun, or of several?", dir, ErrNoRecords, rundir.MetricsFile)
		}
		begin := len(runs)
		for _, s := range found.Stages {
			of := source{name: path.Join(filepath.Base(found.Dir), s.Name), whole: path.Join(filepath.ToSlash(found.Dir), s.Name)}
			if slices.ContainsFunc(runs, func(other source) bool { return other.name == of.name && other.whole == of.whole }) {
				continue // it is named twice
			}
			if len(dirs) == 1 && s.Name != "" {
				of.name = s.Name
			}
			for _, home := range s.Monitors {
				t, err := rundir.ReadTable(home, wanted)
				if err != nil {
					return err
				}
				of.tables = append(of.tables, t)
				for _, name := range t.Names {
					there[name] = there[name] || wanted(name)
				}
			}
			runs = append(runs, of)
		}
		slices.SortFunc(runs[begin:], func(a, b source) int { return strings.Compare(a.name, b.name) })
	}
	count := map[string]int{}
	for _, of := range runs {
		count[of.name]++
	}
	for i, of := range runs {
		if count[of.name] > 1 {
			runs[i].name = of.whole
		}
	}
	for _, name := range names {
		if !there[name] {
			return fmt.Errorf("%w %q: the names are those of %s, such as rollout/reward/mean", ErrNoMetric, name, rundir.MetricsFile)
		}
	}
	columns := names
	if len(names) == 0 {
		maps.DeleteFunc(there, func(_ string, is bool) bool { return !is })
		columns = slices.Sorted(maps.Keys(there))
	}
	out := csv.NewWriter(w)
	if err := out.Write(append([]string{"run", "step"}, columns...)); err != nil {
		return err
	}
	for _, of := range runs {
		rows := map[int64][]string{}
		for i, name := range columns {
			for _, p := range pointsOf(of.tables, name) {
				if rows[p.Step] == nil {
					rows[p.Step] = make([]string, len(columns))
				}
				rows[p.Step][i] = strconv.FormatFloat(p.Value, 'g', -1, 64)
			}
		}
		for _, step := range slices.Sorted(maps.Keys(rows)) {
			if err := out.Write(append([]string{of.name, strconv.FormatInt(step, 10)}, rows[step]...)); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// pointsOf returns the values of a metric by step.
func pointsOf(tables []rundir.Table, name string) (all []rundir.Point) {
	for i := range tables {
		t := &tables[i]
		column := t.Column(name)
		for k, record := range column.Records {
			all = append(all, rundir.Point{Step: t.Steps[record], Time: t.Times[record], Value: column.Values[k]})
		}
	}
	return rundir.ByStep(all)
}
