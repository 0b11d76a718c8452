package studio

import (
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/rundir"
)

// advise answers what bounds a step of a run, and which settings would change that. It simulates with
// the settings and times that the run has kept; a run that has nothing to plan has a reason.
func (s *Server) advise(r *http.Request, _ struct{}) (any, error) {
	id, dir, err := s.runDir(r)
	if err != nil {
		return nil, err
	}
	set, err := s.known(dir).settings.of(dir)
	if err != nil {
		return nil, err
	}
	if set.text == "" {
		return nil, notFound{fmt.Errorf("the run %q has kept no configuration", id)}
	}
	if err := checkFiles(dir); err != nil {
		return nil, err
	}
	if n, err := metricsBytes(dir); err != nil {
		return nil, err
	} else if n > maxPlannedBytes {
		return nil, mistake{errors.New("the run has too many metrics to read here: use trinity plan")}
	}
	s.planning.Lock() // one at a time: it simulates
	defer s.planning.Unlock()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	advice, err := s.Advise(dir, func(overrides ...string) (*config.Config, error) {
		return (&written{Text: set.text, Overrides: overrides}).parse()
	})
	if err != nil {
		return map[string]any{"advice": nil, "reason": shown(err.Error())}, nil
	}
	return map[string]any{"advice": advice, "reason": ""}, nil
}

// maxPlannedBytes is how much of metrics is read for an advice; in memory they take about three times as
// much.
const maxPlannedBytes = 128 << 20

// metricsBytes returns how many bytes the metrics of a run and its stages have.
func metricsBytes(dir string) (sum int64, err error) {
	_, files, err := rundir.Files(dir)
	for _, path := range files {
		if info, err := os.Lstat(path); err == nil { // else the run has removed it
			sum += info.Size()
		}
	}
	return sum, err
}
