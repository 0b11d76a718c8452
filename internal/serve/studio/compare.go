package studio

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strconv"

	"github.com/trinity-go/trinity/internal/report"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

const minCompared, maxCompared = 2, 16 // runs

// compare answers with a comparison of runs, as `trinity compare --json` prints it. The runs' names are
// their IDs.
func (s *curves) compare(r *http.Request) (any, error) {
	ids := r.URL.Query()["run"]
	if len(ids) < minCompared || len(ids) > maxCompared {
		return nil, mistake{fmt.Errorf("run is given %d times: name %d to %d runs", len(ids), minCompared, maxCompared)}
	}
	var dirs []string
	for _, id := range ids {
		f, err := s.runs.open(id)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, f.dir)
	}
	s.comparing.Lock() // one at a time: the columns of all runs are in memory
	defer s.comparing.Unlock()
	if err := r.Context().Err(); err != nil { // who asked has gone
		return nil, err
	}
	defer s.files.trim()
	source := func(dir string, wanted func(string) bool) (rundir.Table, error) {
		t, _, damage, err := s.files.update(dir, wanted, rundir.Mark{})
		return t, cmp.Or(err, damage)
	}
	q := r.URL.Query()
	asked := report.Asked{Metric: q.Get("metric"), AtBest: q.Get("by") == "best", Alone: q.Get("alone") == "1",
		Names: ids, Tables: source, Rows: s.runs.rows}
	c, err := asked.Compare(dirs...)
	switch {
	case errors.Is(err, report.ErrNoRecords), errors.Is(err, fs.ErrNotExist):
		return nil, notFound{err}
	case errors.Is(err, report.ErrNoMetric):
		return nil, mistake{err}
	case err != nil:
		return nil, err
	}
	c.Apart, c.Differences, c.Metrics, c.Notes = list(c.Apart), list(c.Differences), list(c.Metrics), list(c.Notes)
	c.Best, c.Others = list(c.Best), list(c.Others)
	return c, nil
}

// rows reads the answers of the evaluation at a step that the stage in a directory keeps; none if it keeps none.
func (s *runs) rows(dir string, step int64) ([]*trace.Held, error) {
	root, err := s.root()
	if err != nil {
		return nil, err
	}
	id, err := filepath.Rel(root, dir)
	if err != nil {
		return nil, err
	}
	if id = filepath.ToSlash(id); id == "." {
		id = whole
	}
	f, err := s.open(id)
	if err != nil {
		return nil, err
	}
	answers, err := f.evaluated(strconv.FormatInt(step, 10), "")
	if errors.As(err, new(notFound)) { // it was not kept
		return nil, nil
	}
	return answers, err
}
