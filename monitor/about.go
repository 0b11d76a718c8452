package monitor

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
)

// About is what a reader of a run's files must know of it, in [rundir.About].
type About struct {
	ID         string         `json:"id"`
	Project    string         `json:"project"`
	Group      string         `json:"group,omitempty"`
	Name       string         `json:"name"`
	Began      time.Time      `json:"began"`
	TotalSteps int64          `json:"total_steps,omitempty"` // training steps; 0 if unknown
	Settings   map[string]any `json:"settings,omitempty"`    // without secrets

	Parts map[string]Part `json:"parts,omitempty"` // by name: "explorer", "trainer"
}

// Part is what the newest process of a part of a run tells of itself.
type Part struct {
	Status Status    `json:"status,omitempty"` // "" until it ends, and forever if it is killed
	Error  string    `json:"error,omitempty"`  // that it failed with, a line
	Time   time.Time `json:"time"`             // when it ended; until then, when it began
	For    string    `json:"for,omitempty"`    // for whom it waits; "" if it works, or has waited for less than a few seconds
	// Starts has when the part's processes began, this one's last. Of many it lacks the oldest.
	Starts []time.Time `json:"starts,omitempty"`
}

// maxStarts is how many starts of a part are kept.
const maxStarts = 32

// Lived returns how much of the time between two records of a part its processes lived. What one did
// after its last record is lost, so the time counts from the last of the starts between them.
func Lived(starts []time.Time, from, to time.Time) time.Duration {
	for _, s := range starts {
		if s.After(from) && !s.After(to) {
			from = s
		}
	}
	return max(0, to.Sub(from))
}

// identify fills in the run's ID and the time at which it began, and describes the run in
// [rundir.About]. A run that resumes keeps both, unless the file is damaged.
func identify(run *Run) error {
	if err := durable.MkdirAll(run.Dir, 0o755); err != nil {
		return err
	}
	return changeAbout(run.Dir, func(a *About, err error) error {
		switch {
		case errors.As(err, new(damagedError)):
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
		a.set(run.Parts, Part{Time: now()})
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
	if _, err := os.Stat(filepath.Join(run.Dir, rundir.About)); errors.Is(err, fs.ErrNotExist) {
		if err := identify(&run); err != nil {
			return err
		}
	}
	return KeepEnd(run.Dir, run.Parts, Failed, reason)
}

// KeepEnd notes in the monitor directory dir how some parts of a run ended; reason is "" unless they
// failed. It does nothing if the run has never opened its monitors.
func KeepEnd(dir string, parts []string, status Status, reason string) error {
	return keep(dir, func(a *About) { a.set(parts, Part{Status: status, Error: reason, Time: now()}) })
}

// KeepWait notes in the monitor directory dir whom a part of a run waits for, "" for nobody.
func KeepWait(dir, part, who string) error {
	return keep(dir, func(a *About) {
		if p := a.Parts[part]; p.Status == "" && !p.Time.IsZero() {
			p.For = who
			a.Parts[part] = p
		}
	})
}

// keep changes the description of a run that has opened its monitors.
func keep(dir string, change func(*About)) error {
	err := changeAbout(dir, func(a *About, err error) error {
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

// set changes what parts tell, but for their starts.
func (a *About) set(parts []string, to Part) {
	if a.Parts == nil {
		a.Parts = map[string]Part{}
	}
	for _, part := range parts {
		to.Starts = a.Parts[part].Starts
		a.Parts[part] = to
	}
}

func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// changeAbout changes the description of the run in dir. An explorer and a trainer may do so at once.
// change gets an empty description with an error if there is none that can be read.
func changeAbout(dir string, change func(*About, error) error) error {
	release, err := durable.Acquire(context.Background(), filepath.Join(dir, ".about.lock"))
	if err != nil {
		return err
	}
	defer release()
	a, err := ReadAbout(dir)
	if err := change(&a, err); err != nil {
		return err
	}
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, rundir.About), append(text, '\n'))
}

// damagedError is what is wrong in a description.
type damagedError struct{ error }

// ReadAbout returns the description of the run in a monitor directory. A damaged file is an error.
func ReadAbout(dir string) (a About, err error) {
	path := filepath.Join(dir, rundir.About)
	text, err := os.ReadFile(path)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return About{}, damagedError{fmt.Errorf("%s is damaged: %w", path, err)}
	}
	return a, nil
}

// readRun returns the run whose monitor directory is dir. A run of an earlier version, which has no
// [rundir.About], has the names of its directories, and gets an ID.
func readRun(dir string) (Run, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return Run{}, err
	}
	job := filepath.Dir(path)
	run := Run{Dir: dir, Name: filepath.Base(job), Project: filepath.Base(filepath.Dir(job))}
	a, err := ReadAbout(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return run, identify(&run)
	case errors.As(err, new(damagedError)):
		return run, fmt.Errorf("%w; without this file the run gets a new ID", err)
	}
	run.ID, run.Project, run.Group, run.Name, run.Began, run.Settings = a.ID, a.Project, a.Group, a.Name, a.Began, a.Settings
	return run, err
}

// Holders returns who holds the locks of a run's directory and has not told its end, by the names of the
// run's parts. Some of these processes may be dead.
func Holders(dir string, parts map[string]Part) (map[string]durable.Held, error) {
	holders, err := durable.Holders(dir)
	maps.DeleteFunc(holders, func(name string, h durable.Held) bool {
		part, ok := parts[name]
		ended := ok && part.Status != "" && !part.Time.Before(h.Since.Truncate(time.Millisecond)) // it has released the lock
		return ended || strings.HasPrefix(name, "sink_")
	})
	return holders, err
}
