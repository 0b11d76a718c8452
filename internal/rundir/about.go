package rundir

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/durable"
)

// About is what a reader of a run's files must know of it, in [AboutFile].
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

// Status is how a run ended.
type Status string

// Ends of a run. A killed run has none.
const (
	Finished Status = "finished"
	Failed   Status = "failed"
	Stopped  Status = "stopped" // by a person; it can resume
)

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

// DamagedError is the error of a description that is no JSON of one.
type DamagedError struct{ error }

// maxSmall is the size of the largest description or configuration that is read.
const maxSmall = 4 << 20

// ReadAbout returns the description of the run in a monitor directory. A damaged file is a [DamagedError].
func ReadAbout(dir string) (a About, err error) {
	text, err := durable.ReadWithin(dir, AboutFile, maxSmall)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return About{}, DamagedError{fmt.Errorf("%s is damaged: %w", filepath.Join(dir, AboutFile), err)}
	}
	return a, nil
}

// ReadSettings returns the settings of the run in a monitor directory that differ from the defaults, in
// YAML. They may have secrets that somebody wrote by hand.
func ReadSettings(dir string) ([]byte, error) { return durable.ReadWithin(dir, SettingsFile, maxSmall) }

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

// IsHeld reports whether a process does the run in a directory. Of a process of another machine it cannot
// tell, and says yes unless that has noted its end.
func IsHeld(dir string, parts map[string]Part) (bool, error) {
	holders, err := Holders(dir, parts)
	for _, h := range holders {
		if lives, known := h.Lives(); lives || !known {
			return err == nil, err
		}
	}
	return false, err
}
