package monitor

import (
	"cmp"
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
	"github.com/trinity-go/trinity/internal/rundir"
)

// maxStarts is how many starts of a part are kept.
const maxStarts = 32

// identify fills in the run's ID and the time at which it began, and describes the run in
// [rundir.AboutFile]. A run that resumes keeps both, unless the file is damaged.
func identify(run *Run) error {
	if err := durable.MkdirAll(run.Dir, 0o755); err != nil {
		return err
	}
	return changeAbout(run.Dir, func(a *rundir.About, err error) error {
		switch {
		case errors.As(err, new(rundir.DamagedError)):
			if run.Say != nil {
				run.Say(fmt.Sprintf("%v; the run gets a new ID, so services see a new run", err))
			}
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if a.ID == "" {
			a.ID, a.Began = strings.ToLower(rand.Text()[:12]), now()
		}
		run.ID, run.Began = a.ID, a.Began
		if run.Trains || a.TotalSteps == 0 { // an explorer counts its own steps
			a.TotalSteps = cmp.Or(run.TotalSteps, a.TotalSteps)
		}
		a.Project, a.Group, a.Name, a.Settings = run.Project, run.Group, run.Name, run.Settings
		setParts(a, run.Parts, rundir.Part{Time: now()})
		for _, name := range run.Parts {
			part := a.Parts[name]
			part.Starts = append(part.Starts, part.Time)
			part.Starts = part.Starts[max(0, len(part.Starts)-maxStarts):]
			a.Parts[name] = part
		}
		return nil
	})
}

// KeepFailure describes a run that failed before it opened its monitors, and notes why. A run that is
// described already keeps the description.
func KeepFailure(run Run, reason string) error {
	if _, err := os.Stat(filepath.Join(run.Dir, rundir.AboutFile)); errors.Is(err, fs.ErrNotExist) {
		if err := identify(&run); err != nil {
			return err
		}
	}
	return KeepEnd(run.Dir, run.Parts, Failed, reason)
}

// KeepEnd notes in the monitor directory dir how some parts of a run ended; reason is "" unless they
// failed. It does nothing if the run has never opened its monitors.
func KeepEnd(dir string, parts []string, status Status, reason string) error {
	return keep(dir, func(a *rundir.About) { setParts(a, parts, rundir.Part{Status: status, Error: reason, Time: now()}) })
}

// KeepWait notes in the monitor directory dir whom a part of a run waits for, "" for nobody.
func KeepWait(dir, part, who string) error {
	return keep(dir, func(a *rundir.About) {
		if p := a.Parts[part]; p.Status == "" && !p.Time.IsZero() {
			p.For = who
			a.Parts[part] = p
		}
	})
}

// keep changes the description of a run that has opened its monitors.
func keep(dir string, change func(*rundir.About)) error {
	err := changeAbout(dir, func(a *rundir.About, err error) error {
		if err == nil {
			change(a)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// setParts changes what parts tell, but for their starts.
func setParts(a *rundir.About, parts []string, to rundir.Part) {
	if a.Parts == nil {
		a.Parts = map[string]rundir.Part{}
	}
	for _, part := range parts {
		to.Starts = a.Parts[part].Starts
		a.Parts[part] = to
	}
}

func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// changeAbout changes the description of the run in dir. An explorer and a trainer may do so at once.
// change gets an empty description with an error if there is none that can be read.
func changeAbout(dir string, change func(*rundir.About, error) error) error {
	release, err := durable.Acquire(context.Background(), filepath.Join(dir, ".about.lock"))
	if err != nil {
		return err
	}
	defer release()
	a, err := rundir.ReadAbout(dir)
	if err := change(&a, err); err != nil {
		return err
	}
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, rundir.AboutFile), append(text, '\n'))
}

// aboutRun returns the run whose monitor directory is dir. With an error it has the names of the directories.
func aboutRun(dir string) (Run, error) {
	job, err := filepath.Abs(filepath.Join(dir, ".."))
	if err != nil {
		return Run{}, err
	}
	run := Run{Dir: dir, Name: filepath.Base(job), Project: filepath.Base(filepath.Dir(job))}
	a, err := rundir.ReadAbout(dir)
	if err == nil {
		run.ID, run.Project, run.Group, run.Name, run.Began = a.ID, a.Project, a.Group, a.Name, a.Began
		run.Settings, run.TotalSteps = a.Settings, a.TotalSteps
	}
	return run, err
}

// readRun returns the run whose monitor directory is dir. A run of an earlier version, which has no
// [rundir.AboutFile], has the names of its directories, and gets an ID.
func readRun(dir string) (Run, error) {
	run, err := aboutRun(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = identify(&run)
	case errors.As(err, new(rundir.DamagedError)):
		err = fmt.Errorf("%w; without this file the run gets a new ID", err)
	}
	return run, err
}
