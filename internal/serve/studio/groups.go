package studio

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/trinity-go/trinity/internal/report"
)

// groups answers which of some runs differ in their names and seeds alone, as a comparison groups them, and
// with the shortest names that tell the runs apart.
func (s *runs) groups(r *http.Request) (any, error) {
	ids := r.URL.Query()["run"]
	if len(ids) == 0 {
		return nil, mistake{errors.New("run is not given: name the runs")}
	}
	kept := make([]report.Kept, len(ids))
	for i, id := range ids {
		f, err := s.open(id)
		if err != nil {
			return nil, err
		}
		run, _ := f.summary()
		if run == nil {
			return nil, notFound{fmt.Errorf("the run %q is gone", id)}
		}
		if kept[i], err = f.kept(run); err != nil {
			return nil, err
		}
	}
	return map[string]any{"groups": report.Groups(kept), "labels": report.Name(kept).Labels}, nil
}
