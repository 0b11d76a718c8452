// Package rundir reads what a run has written. [Open] finds the stages of a run, which of them is the newest, and
// its traces. A [File] or [ReadTable] reads metrics by columns, [ReadAbout] how the run's processes fare. It
// writes nothing into a run's directory.
package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// Names in the directory of a run or of a stage.
const (
	Monitor    = "monitor" // folder of what monitors write
	Buffer     = "buffer"  // folder of the queues' logs
	Traces     = "trace"   // folder of what internal/trace writes
	Logs       = "log"     // folder of lines for people, as log.save_dir sets it
	StageDone  = "stage_done.json"
	SweepFile  = "sweep.json"   // of which sweep the run is
	StepPrefix = "global_step_" // folders of checkpoints, with the train step after it

	FailedLog = "failed_rollouts.log" // in the folder Logs
)

// Names in the folder [Monitor].
const (
	MetricsFile  = "metrics.jsonl" // records, one a line
	AboutFile    = "about.json"    // what readers must know of the run, and its ID
	SettingsFile = "config.yaml"   // the settings that differ from the defaults
	BestFile     = "best.json"     // in a stage's directory: the evaluations of trainer.keep_best
	MessagesFile = "said.log"      // lines for people: a time, a space and the line
)

// Root returns the directory of a run without the links that lead to it.
func Root(dir string) (string, error) {
	root, err := filepath.EvalSymlinks(dir)
	if at := new(fs.PathError); errors.As(err, &at) {
		err = at.Err // its path is dir, or a part of it
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("no run in %s: %w: give the directory that trinity run names when it begins", dir, err)
	}
	if err != nil {
		return "", fmt.Errorf("no run in %s: %w", dir, err)
	}
	return root, nil
}

// Walk visits the files and directories of the run at or below dir, which may be a link, but not its
// checkpoints. The paths begin with root, which is dir without links. What the run removes meanwhile is
// left out.
func Walk(dir string, visit func(path string, d fs.DirEntry) error) (root string, err error) {
	if root, err = Root(dir); err != nil {
		return "", err
	}
	return root, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), StepPrefix):
			return filepath.SkipDir
		}
		return visit(path, d)
	})
}
