package rundir

import (
	"cmp"
	"iter"
	"time"

	"github.com/trinity-go/trinity"
)

// Table is what was read of a file, for readers who keep it while the file is read on: nothing in it
// changes any more.
type Table struct {
	Steps, Times []int64 // of the records
	roles        []uint8
	roleNames    []string
	Names        []string // of all metrics
	At           Mark     // behind all of it
	Bad          int      // lines that are no records
	columns      map[string]Column
}

// Table returns what was read, with the metrics that Update was asked for.
func (c *File) Table() Table {
	t := Table{c.steps, c.times, c.roles, c.roleNames, c.names, c.pos.At, c.bad, map[string]Column{}}
	for id, column := range c.values {
		if column != nil {
			t.columns[c.names[id]] = *column
		}
	}
	return t
}

// Role returns the role of a record.
func (t *Table) Role(record int) string { return t.roleNames[t.roles[record]] }

// Column returns the values of a metric. They are empty if the metric was not wanted.
func (t *Table) Column(name string) Column { return t.columns[name] }

// ReadTable returns what the file of metrics in a directory has, with the values of the metrics that are wanted;
// nil wants none. Without a file there are no records. A line that is no record is left out, and is the error.
func ReadTable(dir string, wanted func(name string) bool) (Table, error) {
	f := NewFile(dir, nil)
	_, err := f.Update(wanted, Mark{})
	return f.Table(), cmp.Or(err, f.Damage())
}

// Records returns the records, with the metrics that Update was asked for.
func (t *Table) Records() iter.Seq[trinity.Record] {
	return func(yield func(trinity.Record) bool) {
		metrics := make([]trinity.Metrics, len(t.Steps))
		for i := range metrics {
			metrics[i] = trinity.Metrics{}
		}
		for name, column := range t.columns {
			for i, record := range column.Records {
				metrics[record][name] = column.Values[i]
			}
		}
		for i, m := range metrics {
			r := trinity.Record{Step: t.Steps[i], Role: t.Role(i), Metrics: m}
			if ms := t.Times[i]; ms != 0 {
				r.Time = time.UnixMilli(ms).UTC()
			}
			if !yield(r) {
				return
			}
		}
	}
}
