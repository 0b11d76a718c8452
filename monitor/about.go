package monitor

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/durable"
)

// aboutFile is the file in the monitor directory that describes the run. A run keeps its ID there.
const aboutFile = "about.json"

// about is what a sink must know of a run, in aboutFile.
type about struct {
	ID       string         `json:"id"`
	Project  string         `json:"project"`
	Group    string         `json:"group,omitempty"`
	Name     string         `json:"name"`
	Began    time.Time      `json:"began"`
	Settings map[string]any `json:"settings,omitempty"` // without secrets
}

// identify fills in the run's ID and the time at which it began, and describes the run in
// aboutFile. A run that resumes keeps both, unless the file is damaged.
func identify(run *Run) error {
	if err := durable.MkdirAll(run.Dir, 0o755); err != nil {
		return err
	}
	release, err := durable.Acquire(context.Background(), filepath.Join(run.Dir, ".about.lock")) // an explorer and a trainer may begin at once
	if err != nil {
		return err
	}
	defer release()
	a, err := readAbout(run.Dir)
	switch {
	case errors.As(err, new(damagedError)):
		if run.Say != nil {
			run.Say(fmt.Sprintf("%v; the run gets a new ID, so services see a new run", err))
		}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if a.ID == "" {
		a.ID, a.Began = strings.ToLower(rand.Text()[:12]), time.Now().UTC().Truncate(time.Millisecond)
	}
	run.ID, run.Began = a.ID, a.Began
	text, err := json.Marshal(about{run.ID, run.Project, run.Group, run.Name, run.Began, run.Settings})
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(run.Dir, aboutFile), append(text, '\n'))
}

// damagedError is what is wrong in a description.
type damagedError struct{ error }

// readAbout returns the description of the run in dir. It may return a [damagedError].
func readAbout(dir string) (a about, err error) {
	path := filepath.Join(dir, aboutFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return about{}, damagedError{fmt.Errorf("%s is damaged: %w", path, err)}
	}
	return a, nil
}

// readRun returns the run whose monitor directory is dir. A run of an earlier version, which has no
// aboutFile, has the names of its directories, and gets an ID.
func readRun(dir string) (Run, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return Run{}, err
	}
	job := filepath.Dir(path)
	run := Run{Dir: dir, Name: filepath.Base(job), Project: filepath.Base(filepath.Dir(job))}
	a, err := readAbout(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return run, identify(&run)
	case errors.As(err, new(damagedError)):
		return run, fmt.Errorf("%w; without this file the run gets a new ID", err)
	}
	run.ID, run.Project, run.Group, run.Name, run.Began, run.Settings = a.ID, a.Project, a.Group, a.Name, a.Began, a.Settings
	return run, err
}
