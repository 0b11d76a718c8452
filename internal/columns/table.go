package columns

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
	t := Table{c.steps, c.times, c.roles, c.roleNames, c.names, c.at, c.bad, map[string]Column{}}
	for id, column := range c.values {
		if column != nil {
			t.columns[c.names[id]] = *column
		}
	}
	return t
}

// Role returns the role of a record.
func (t *Table) Role(record int) string { return t.roleNames[t.roles[record]] }

// Column returns the values of a metric; none if nobody asked for it.
func (t *Table) Column(name string) Column { return t.columns[name] }
