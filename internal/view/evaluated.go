package view

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// Evaluated is the answers of one evaluation, a rollout each.
type Evaluated struct {
	Name    string // of the run or the file, with the step
	Step    int64
	Answers []*trace.Held
}

// Evaluations returns the directory of the evaluations of a run, those of its newest stage that has some, by step.
func Evaluations(dir string) ([]trace.EvaluationFile, error) {
	run, err := rundir.Open(dir)
	if err != nil {
		return nil, err
	}
	for _, path := range run.Traces {
		if all, err := trace.Evaluations(path); len(all) > 0 || err != nil {
			return all, err
		}
	}
	return nil, fmt.Errorf("no evaluation is kept below %s: give the directory of a run that has buffer.explorer_input.eval_tasksets "+
		"and has evaluated, or a file that trinity eval --output has written", dir)
}

// ReadEvaluated reads an evaluation: a file of answers, or RUN or RUN@STEP, where RUN is the directory of a run or of a
// stage. Without a step it is the newest; it is back evaluations before that.
func ReadEvaluated(place string, back int) (*Evaluated, error) {
	if info, err := os.Stat(place); err == nil && info.Mode().IsRegular() {
		rows, err := trace.ReadEvaluated(place)
		return &Evaluated{Name: place, Answers: trace.HeldOf(rows)}, err
	}
	dir, step := place, ""
	if _, err := os.Stat(place); err != nil { // a name of a directory may have an @
		if at := strings.LastIndexByte(place, '@'); at > 0 {
			dir, step = place[:at], place[at+1:]
		}
	}
	all, err := Evaluations(dir)
	if err != nil {
		return nil, err
	}
	file, err := choose(all, step, back)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return OpenEvaluation(filepath.Clean(dir)+"@"+file.Name(), file)
}

// OpenEvaluation reads an evaluation of a run.
func OpenEvaluation(name string, file trace.EvaluationFile) (*Evaluated, error) {
	rows, err := trace.ReadEvaluated(file.Path)
	return &Evaluated{Name: name, Step: file.Step, Answers: trace.HeldOf(rows)}, err
}

// choose returns the evaluation of this name; "" is the newest. With back it is one of the same
// explorer before it.
func choose(all []trace.EvaluationFile, name string, back int) (trace.EvaluationFile, error) {
	var names []string
	for _, f := range all {
		names = append(names, f.Name())
	}
	at := slices.Index(names, name)
	if name == "" {
		at = len(all) - 1
		for i, f := range all { // the run's own come first
			if f.Who == trace.OfRun {
				at = i
			}
		}
	}
	if at < 0 {
		return trace.EvaluationFile{}, fmt.Errorf("no evaluation of step %s is kept: there are those of %s", name, listed(names))
	}
	for i := at; back > 0 && i > 0; {
		if i--; all[i].Who == all[at].Who {
			at, back = i, back-1
		}
	}
	if back > 0 {
		return all[at], fmt.Errorf("no evaluation before that of step %s is kept", all[at].Name())
	}
	return all[at], nil
}

// errNothingShared is the error of two evaluations without a common row.
var errNothingShared = errors.New("the evaluations have no row in common that asks the same: compare evaluations of the same tasksets")
