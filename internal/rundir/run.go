package rundir

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
)

// Run is what is at or below a directory: a run, with its stages if it has some, or several runs.
type Run struct {
	Dir    string   // without the links that lead to it
	Stages []*Stage // those with a file of metrics, the newest first
	Traces []string // directories of traces: first that of the newest stage, last those of trinity debug
	Failed []string // files of failed rollouts

	name string          // of the directory, as somebody gave it
	ends map[string]*end // by directory of a file of metrics
}

// Stage is a run or a stage of one.
type Stage struct {
	Dir      string
	Name     string    // path below the run's directory, with slashes; "" for that directory itself
	Monitors []string  // directories with a file of metrics; each of several explorers has one
	Trained  time.Time // when its trainer wrote its newest record of a step; zero if it has none
	Written  time.Time // when anybody wrote a record
}

// Open reads what is at or below a directory, which may be a link. Stages are ordered by the newest record of
// the trainer, or of anybody while it has written none. Times are those in the records, because a copy of a
// run has files of other times.
func Open(dir string) (*Run, error) {
	r := &Run{name: dir, ends: map[string]*end{}}
	return r, r.Update()
}

// Update reads what has come since. Of files that it knows it reads the new lines only.
func (r *Run) Update() error {
	found := Run{name: r.name, ends: r.ends}
	root, err := Walk(r.name, func(path string, d fs.DirEntry) error {
		switch dir := filepath.Dir(path); {
		case d.IsDir() && d.Name() == Traces:
			found.Traces = append(found.Traces, path)
		case d.Name() == FailedLog:
			found.Failed = append(found.Failed, path)
		case d.Name() == MetricsFile:
			s := found.stage(homeOf(dir))
			s.Monitors = append(s.Monitors, dir)
			if err := s.look(found.ends, dir); !errors.Is(err, fs.ErrNotExist) { // a run may be removed meanwhile
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	found.Dir = root
	for _, s := range found.Stages {
		if below, err := filepath.Rel(root, s.Dir); err == nil && filepath.IsLocal(below) && below != "." {
			s.Name = filepath.ToSlash(below)
		}
	}
	slices.SortStableFunc(found.Stages, func(a, b *Stage) int { return b.newest().Compare(a.newest()) })
	age := func(traces string) int { // of stages
		if i := slices.IndexFunc(found.Stages, func(s *Stage) bool { return s.Dir == filepath.Dir(traces) }); i >= 0 {
			return i
		}
		return len(found.Stages)
	}
	slices.SortStableFunc(found.Traces, func(a, b string) int { return cmp.Compare(age(a), age(b)) })
	*r = found
	return nil
}

// stage returns the stage of a directory.
func (r *Run) stage(dir string) *Stage {
	i := slices.IndexFunc(r.Stages, func(s *Stage) bool { return s.Dir == dir })
	if i < 0 {
		i, r.Stages = len(r.Stages), append(r.Stages, &Stage{Dir: dir})
	}
	return r.Stages[i]
}

// Newest returns the newest stage. Without any it is an error.
func (r *Run) Newest() (*Stage, error) {
	if len(r.Stages) == 0 {
		return nil, fmt.Errorf("%s has no %s: is it the directory of a run that has begun?", r.name, MetricsFile)
	}
	return r.Stages[0], nil
}

// Monitors returns the directories that may hold a file of metrics of the stage in dir: the stage's [Monitor], and
// one below it for each of several explorers.
func Monitors(dir string) []string {
	own := filepath.Join(dir, Monitor)
	if info, err := os.Lstat(own); err != nil || !info.IsDir() {
		return nil
	}
	dirs := []string{own}
	entries, _ := os.ReadDir(own) // of a run that is gone there are none
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(own, e.Name()))
		}
	}
	return dirs
}

// newest returns the time by which the stage is compared with others.
func (s *Stage) newest() time.Time {
	if s.Trained.IsZero() {
		return s.Written
	}
	return s.Trained
}

// homeOf returns the directory of the stage that a directory with metrics belongs to. Each of several
// explorers has a folder below the stage's [Monitor].
func homeOf(dir string) string {
	if parent := filepath.Dir(dir); filepath.Base(dir) != Monitor && filepath.Base(parent) == Monitor {
		dir = parent
	}
	if filepath.Base(dir) == Monitor {
		return filepath.Dir(dir)
	}
	return dir
}

// end is what is known of the end of a file of metrics.
type end struct {
	Position
	trained, written int64 // as of [Stage], in ms since 1970
}

// mostRead bounds the bytes from the end of a file in which a trainer's record is looked for.
const mostRead = 4 << 20

// look finds the newest records of a file of metrics: from its end, or behind what is known.
func (s *Stage) look(ends map[string]*end, dir string) error {
	if ends[dir] == nil {
		ends[dir] = &end{}
	}
	e := ends[dir]
	f, info, isSame, err := e.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if isSame {
		err = EachLine(f, e.At.Offset, info.Size(), func(line []byte, end int64) {
			e.At.Offset = end
			e.add(line)
		})
	} else {
		*e = end{Position: Position{info: info}}
		err = e.read(f, info.Size())
	}
	if err != nil {
		return err
	}
	e.At = MarkAt(f, e.At.Offset)
	s.Trained, s.Written = latest(s.Trained, e.trained), latest(s.Written, e.written)
	return nil
}

// latest returns the later of two times, of which one is in ms since 1970; 0 is none.
func latest(t time.Time, ms int64) time.Time {
	if other := time.UnixMilli(ms); ms > 0 && other.After(t) {
		return other
	}
	return t
}

// read finds the newest records of a file from its end.
func (e *end) read(f io.ReaderAt, size int64) error {
	var cut []byte // the end of a line whose beginning is before it
	for begin, least := size, max(0, size-mostRead); begin > least; {
		part := make([]byte, min(begin, 1<<16))
		begin -= int64(len(part))
		if _, err := f.ReadAt(part, begin); err != nil {
			return err
		}
		if last := bytes.LastIndexByte(part, '\n'); e.At.Offset == 0 && last >= 0 {
			e.At.Offset = begin + int64(last) + 1
		}
		lines := bytes.SplitAfter(append(part, cut...), []byte("\n"))
		cut = nil
		if begin > 0 {
			cut, lines = lines[0], lines[1:]
		}
		for _, line := range slices.Backward(lines) {
			if e.add(line) {
				return nil
			}
		}
	}
	return nil
}

// add takes the time of a record, and reports whether it is of a train step. A line that is no record,
// as a killed process leaves at the end, is left out.
func (e *end) add(line []byte) (trained bool) {
	h, _, err := Scan(line, nil)
	if err != nil || !bytes.HasSuffix(line, []byte("\n")) {
		return false
	}
	e.written = max(e.written, h.Time)
	if trained = string(h.Role) == trinity.RoleTrainer && h.Step > 0 && h.Time > 0; trained {
		e.trained = max(e.trained, h.Time)
	}
	return trained
}
