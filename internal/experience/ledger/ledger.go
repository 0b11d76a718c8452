// Package ledger records what became of the experiences of a run: explored, dropped and by whom,
// trained on. Explorer and trainer write a record for each of their steps into logs of their own.
package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
)

// Step is what one step did with experiences. A record replaces the records of its log with the
// same and later steps: they are of a process that was killed before the step counted.
type Step struct {
	Step     int64          `json:"step"`
	Explored IDs            `json:"explored,omitempty"` // that came to the pipeline
	Put      IDs            `json:"put,omitempty"`      // that the pipeline left; none: all of Explored, if nothing was dropped
	Trained  IDs            `json:"trained,omitempty"`
	Dropped  map[string]IDs `json:"dropped,omitempty"` // by who dropped them
	Replay   bool           `json:"replay,omitempty"`  // the buffer gives experiences by priority, and more than once
	Ended    bool           `json:"ended,omitempty"`   // Step was the trainer's last
}

// folder holds the logs, in the directory of a run's log files.
const folder = "experiences"

// Writer appends records to a role's log.
type Writer struct{ log *durable.Log }

// Open opens the log of [trinity.RoleExplorer] or [trinity.RoleTrainer] in the directory of a run's log files.
func Open(dir, role string) (*Writer, error) {
	log, err := durable.OpenLog(filepath.Join(dir, folder, role))
	if err != nil {
		return nil, err
	}
	return &Writer{log}, nil
}

// Append adds a record. It is on the disk when Append returns.
func (w *Writer) Append(s Step) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = w.log.Append(data)
	return err
}

// Close closes the log.
func (w *Writer) Close() error { return w.log.Close() }

// read returns the records of a log that count. A missing log has none.
func read(dir string) (steps []Step, err error) {
	r := durable.ReadLog(dir, 0)
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		data, err := r.Next()
		if errors.Is(err, io.EOF) {
			return steps, nil
		}
		if err != nil {
			return nil, err
		}
		var s Step
		if err := json.Unmarshal(data, &s); err != nil {
			return nil, fmt.Errorf("%s, record %d: %w", dir, r.Number()-1, err)
		}
		if s.Ended {
			if n := len(steps); n > 0 {
				steps[n-1].Ended = true
			}
			continue
		}
		if n := len(steps); n > 0 {
			steps[n-1].Ended = false
		}
		for len(steps) > 0 && steps[len(steps)-1].Step >= s.Step {
			steps = steps[:len(steps)-1]
		}
		steps = append(steps, s)
	}
}

// Missing returns the experiences of before that are not in after, in order.
func Missing(before, after IDs) IDs {
	left := map[trinity.ExperienceID]int{}
	for _, id := range after {
		left[id]++
	}
	var missing IDs
	for _, id := range before {
		if left[id] == 0 {
			missing = append(missing, id)
		} else {
			left[id]--
		}
	}
	return missing
}

// Of returns the IDs of groups.
func Of(groups []trinity.Group) (ids IDs) {
	for _, g := range groups {
		for _, e := range g {
			ids = append(ids, e.ID)
		}
	}
	return ids
}
