package studio

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/rundir"
)

// advise answers what bounds a step of a run, and which settings would change that. It simulates with
// the settings and times that the run has kept; a run that has nothing to plan has a reason.
func (s *configs) advise(r *http.Request, _ struct{}) (any, error) {
	f, err := s.runs.open(r.PathValue("run"))
	if err != nil {
		return nil, err
	}
	set, err := f.settings()
	if err != nil {
		return nil, err
	}
	if set.text == "" {
		return nil, notFound{fmt.Errorf("the run %q has kept no configuration", f.id)}
	}
	if metricsBytes(f.dir) > maxPlannedBytes {
		return nil, mistake{errors.New("the run has too many metrics to read here: use trinity plan")}
	}
	s.planning.Lock() // one at a time: it simulates
	defer s.planning.Unlock()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	advice, err := s.advice(f.dir, func(overrides ...string) (*config.Config, error) {
		return (&configRequest{Text: set.text, Overrides: overrides}).parse()
	})
	if err != nil {
		return map[string]any{"advice": nil, "reason": shown(err.Error())}, nil
	}
	return map[string]any{"advice": advice, "reason": ""}, nil
}

// maxPlannedBytes is how much of metrics is read for an advice; in memory they take about three times as
// much.
const maxPlannedBytes = 128 << 20

// metricsBytes returns how many bytes the metrics of a run have.
func metricsBytes(dir string) (sum int64) {
	for _, d := range rundir.Monitors(dir) {
		if info, err := os.Lstat(filepath.Join(d, rundir.MetricsFile)); err == nil { // else there are none
			sum += info.Size()
		}
	}
	return sum
}
