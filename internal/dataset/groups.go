package dataset

import (
	"cmp"
	"context"
	"slices"

	"github.com/trinity-go/trinity"
)

// Groups reads the rows of a dataset as groups of experiences, in the order of the rows.
// Neighbouring rows that an earlier run archived for one task of one step form a group, each
// rollout and turn once. A row without a task, a demonstration, is its own group.
type Groups struct {
	rows    *Source
	first   []int // row of each group
	largest int   // rollouts

	known int // rows that were looked at
	task  trinity.ExperienceID
	turns map[trinity.ExperienceID]bool // of the last group
	runs  map[int]bool                  // likewise
}

// NewGroups reads every row, so that it finds errors before a run needs the row. Errors are those
// of [Source.Check].
func NewGroups(ctx context.Context, d *Dataset, format RowFormatter) (*Groups, error) {
	g := &Groups{rows: NewSource(d, nil, format, 0)}
	r := rehearsal{source: g.rows, measure: func(row []*trinity.Experience) int {
		for i, e := range row {
			g.add(e, i == 0)
		}
		g.known++
		return 0
	}}
	if err := r.run(ctx, 0, 1); err != nil {
		return nil, err
	}
	g.turns, g.runs = nil, nil
	return g, nil
}

// add adds an experience of the next row to the last group, or begins a new group. first says that it
// is the row's first.
func (g *Groups) add(e *trinity.Experience, first bool) {
	task := trinity.ExperienceID{Step: e.ID.Step, Task: e.ID.Task}
	if e.ID.Task == "" && first || e.ID.Task != "" && (task != g.task || g.turns[e.ID]) {
		g.first, g.task = append(g.first, g.known), task
		g.turns, g.runs = map[trinity.ExperienceID]bool{}, map[int]bool{}
	}
	g.turns[e.ID], g.runs[e.ID.Run] = true, true
	g.largest = max(g.largest, len(g.runs))
}

// Len returns the number of groups.
func (g *Groups) Len() int { return len(g.first) }

// Largest returns the number of rollouts of the largest group.
func (g *Groups) Largest() int { return g.largest }

// Row returns the first row of group i.
func (g *Groups) Row(i int) (map[string]any, error) { return g.rows.data.Row(g.first[i]) }

// Group returns group i, ordered by run and turn, and the row of the dataset at which it begins.
// The caller owns its experiences.
func (g *Groups) Group(i int) (group trinity.Group, row int, err error) {
	end := g.rows.data.Len()
	if i+1 < len(g.first) {
		end = g.first[i+1]
	}
	for row := g.first[i]; row < end; row++ {
		exps, err := g.rows.row(row)
		if err != nil {
			return nil, 0, err
		}
		group = append(group, exps...)
	}
	slices.SortStableFunc(group, func(a, b *trinity.Experience) int {
		return cmp.Or(cmp.Compare(a.ID.Run, b.ID.Run), cmp.Compare(a.ID.Turn, b.ID.Turn))
	})
	return group, g.first[i], nil
}
