package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
)

// Stage is a run or a stage of one, with the time of its newest record.
type Stage struct {
	Dir     string
	Metrics []string  // its files of metrics; each of several explorers has one
	Trained time.Time // when its trainer wrote a record of a step; zero if it has none
	Written time.Time // when anybody wrote a record
}

// Stages returns the run at or below dir, or its stages, the newest first: by the newest record of the
// trainer, or of anybody while it has written none. Times are those in the records, because a copy of a
// run has files of other times.
func Stages(dir string) (stages []Stage, err error) {
	_, files, err := Files(dir)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		home := homeOf(file)
		i := slices.IndexFunc(stages, func(s Stage) bool { return s.Dir == home })
		if i < 0 {
			i, stages = len(stages), append(stages, Stage{Dir: home})
		}
		s := &stages[i]
		s.Metrics = append(s.Metrics, file)
		if err := s.read(file); err != nil && !errors.Is(err, fs.ErrNotExist) { // a run may be removed meanwhile
			return nil, err
		}
	}
	slices.SortStableFunc(stages, func(a, b Stage) int {
		return b.newest().Compare(a.newest())
	})
	return stages, nil
}

// newest returns the time by which the stage is compared with others.
func (s *Stage) newest() time.Time {
	if s.Trained.IsZero() {
		return s.Written
	}
	return s.Trained
}

// homeOf returns the directory of the stage that a file of metrics belongs to. Each of several explorers
// has a folder below the stage's [Monitor].
func homeOf(file string) string {
	at := filepath.Dir(file)
	if parent := filepath.Dir(at); filepath.Base(at) != Monitor && filepath.Base(parent) == Monitor {
		at = parent
	}
	if filepath.Base(at) == Monitor {
		return filepath.Dir(at)
	}
	return at
}

// mostRead bounds the bytes from the end of a file in which a trainer's record is looked for: readers look
// again every second.
const mostRead = 4 << 20

// read finds the newest records of a file of metrics, from its end.
func (s *Stage) read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	var cut []byte // the end of a line whose beginning is before it
	for least := max(0, end-mostRead); end > least; {
		part := make([]byte, min(end, 1<<16))
		end -= int64(len(part))
		if _, err := f.ReadAt(part, end); err != nil {
			return err
		}
		lines := bytes.Split(append(part, cut...), []byte("\n"))
		cut = nil
		if end > 0 {
			cut, lines = lines[0], lines[1:]
		}
		for _, line := range slices.Backward(lines) {
			if s.add(line) {
				return nil
			}
		}
	}
	return nil
}

// add takes the time of a record, and reports whether it is of a train step. A line that is no record,
// as a killed process leaves at the end, is left out.
func (s *Stage) add(line []byte) bool {
	var r struct {
		Step int64  `json:"step"`
		Role string `json:"role"`
		Time string `json:"time"`
	}
	if json.Unmarshal(line, &r) != nil {
		return false
	}
	at, err := time.Parse(time.RFC3339, r.Time)
	if err != nil {
		return false
	}
	if at.After(s.Written) {
		s.Written = at
	}
	trained := r.Role == trinity.RoleTrainer && r.Step > 0
	if trained && at.After(s.Trained) {
		s.Trained = at
	}
	return trained
}
