package studio

import (
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
)

// Weights are a checkpoint of a run: the best one (trainer.keep_best), that of the best evaluation, or else the
// newest.
type Weights struct {
	Step int64  `json:"step"`
	Path string `json:"path"`
	Best bool   `json:"best"` // it is that of the best evaluation
}

// weights returns the checkpoint by which a run is judged; nil if it has none that is whole.
func (f *runFiles) weights(e *Evaluation) (*Weights, error) {
	best, err := rundir.ReadBest(f.dir)
	if best != nil {
		return &Weights{best.Step, best.Checkpoint, true}, nil
	}
	steps, listErr := rundir.Checkpoints(f.dir)
	if err == nil {
		err = listErr
	}
	isWhole := func(step int64) bool { return durable.Missing(rundir.Checkpoint(f.dir, step)) == "" }
	if e != nil && slices.Contains(steps, e.Version) && isWhole(e.Version) {
		return &Weights{e.Version, rundir.Checkpoint(f.dir, e.Version), true}, err
	}
	for _, step := range slices.Backward(steps) {
		if isWhole(step) {
			return &Weights{step, rundir.Checkpoint(f.dir, step), false}, err
		}
	}
	return nil, err
}

// messages has the lines for people in a monitor directory, up to an offset.
type messages struct {
	end      int64
	warnings []string
}

const (
	warns       = "WARNING: " // begins a line that warns
	mostLines   = 1 << 20     // bytes of lines that are read at once
	mostWarning = 8           // of a monitor directory
)

// kindOf returns by what a line that warns is known, without its role, its step and most of its numbers.
func kindOf(line string) string {
	_, text, _ := strings.Cut(line, ": ")
	return text[:min(len(text), 30)]
}

// warnings returns the lines with which a run with these monitor directories warned, the newest of each kind. It reads what
// came since the last time.
func (f *runFiles) warnings(monitors []string) (all []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, dir := range monitors {
		s := f.said[dir]
		lines, end, readErr := rundir.ReadMessages(dir, s.end, mostLines)
		if readErr != nil {
			err = readErr
		}
		s.end = end
		for _, line := range lines {
			if text, ok := strings.CutPrefix(line.Text, warns); ok {
				isSame := func(other string) bool { return kindOf(other) == kindOf(text) }
				s.warnings = append(slices.DeleteFunc(s.warnings, isSame), text)
			}
		}
		s.warnings = s.warnings[max(0, len(s.warnings)-mostWarning):]
		f.said[dir] = s
		all = append(all, s.warnings...)
	}
	return all, err
}
