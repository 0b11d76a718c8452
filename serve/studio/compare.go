package studio

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity/internal/report"
	"github.com/trinity-go/trinity/monitor"
)

const (
	minCompared, maxCompared = 2, 16     // runs
	maxComparedBytes         = 128 << 20 // of their metrics.jsonl together; in memory they take about three times as much
)

// compare answers with a comparison of runs, as `trinity compare --json` prints it. The runs' names are
// their IDs.
func (s *Server) compare(r *http.Request) (any, error) {
	ids := r.URL.Query()["run"]
	if len(ids) < minCompared || len(ids) > maxCompared {
		return nil, mistake{fmt.Errorf("run is given %d times: name %d to %d runs", len(ids), minCompared, maxCompared)}
	}
	var dirs []string
	left := int64(maxComparedBytes)
	for _, id := range ids {
		dir, err := s.dirOf(id)
		if err != nil {
			return nil, err
		}
		n, err := metricsBytes(dir)
		if err != nil {
			return nil, err
		}
		if left -= n; left < 0 {
			return nil, mistake{fmt.Errorf("the runs have more than %d MiB of metrics: compare fewer, or use `trinity compare`",
				maxComparedBytes>>20)}
		}
		dirs = append(dirs, dir)
	}
	s.comparing.Lock() // one at a time: it reads whole files
	defer s.comparing.Unlock()
	if err := r.Context().Err(); err != nil { // who asked has gone
		return nil, err
	}
	c, err := report.CompareNamed(r.URL.Query().Get("metric"), ids, dirs...)
	switch {
	case errors.Is(err, report.ErrNoRecords), errors.Is(err, fs.ErrNotExist):
		return nil, notFound{err}
	case errors.Is(err, report.ErrNoMetric):
		return nil, mistake{err}
	case err != nil:
		return nil, err
	}
	c.Differences, c.Metrics, c.Notes = list(c.Differences), list(c.Metrics), list(c.Notes)
	return c, nil
}

// metricsBytes returns how many bytes the metrics.jsonl of a run and its stages have. What a comparison
// reads and is a link, which could lead anywhere, or is too large, is an error.
func metricsBytes(dir string) (sum int64, err error) {
	_, files, err := monitor.Files(dir)
	for _, path := range files {
		for _, name := range []string{monitor.File, monitor.ConfigFile, monitor.AboutFile} {
			file := filepath.Join(filepath.Dir(path), name)
			info, err := os.Lstat(file)
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				return 0, err
			case !info.Mode().IsRegular():
				return 0, fmt.Errorf("%s is no regular file", file)
			case name == monitor.File:
				sum += info.Size()
			case info.Size() > maxSmall:
				return 0, fmt.Errorf("%s has %d bytes, more than %d", file, info.Size(), maxSmall)
			}
		}
	}
	return sum, err
}
