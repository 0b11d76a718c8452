package studio

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/monitor"
)

// State says what a run does.
type State string

// The states.
const (
	Running  State = "running"
	Waiting  State = "waiting" // all of its processes do
	Finished State = "finished"
	Stopped  State = "stopped" // by a person; it can resume
	Failed   State = "failed"
	Killed   State = "killed"
	Unknown  State = "unknown"
)

// quiet is the time after which a run of another host, which writes nothing, may not run any more.
const quiet = 10 * time.Minute

// stageDone is the file that marks a finished stage.
const stageDone = "stage_done.json"

// stateOf returns the state of a run, and the line that it failed with. ends say how its processes
// ended, updated is the time of its newest file, and complete that it has made all its steps.
func stateOf(dir string, ends map[string]monitor.End, updated time.Time, complete bool) (State, string) {
	holders, err := durable.Holders(dir)
	if err != nil {
		holders = nil // a run of another user, or one that is gone: its ends tell
	}
	elsewhere, held := false, false
	for name, h := range holders {
		if strings.HasPrefix(name, "sink_") {
			continue
		}
		held = true
		end, ok := ends[name]
		if ok && end.Status != "" && !end.Time.Before(h.Since.Truncate(time.Millisecond)) {
			continue // it has released the lock
		}
		switch lives, known := h.Lives(); {
		case lives:
			return Running, ""
		case !known:
			elsewhere = true
		}
	}
	if elsewhere && time.Since(updated).Abs() < quiet {
		return Running, ""
	}
	state, line := ended(ends)
	switch {
	case state != "":
		return state, line
	case complete || exists(filepath.Join(dir, stageDone)):
		return Finished, ""
	case elsewhere || !held:
		return Unknown, ""
	}
	return Killed, ""
}

// ended returns how a run ended whose processes ended in some ways: "" if that is not known. The worst
// is the run's.
func ended(ends map[string]monitor.End) (state State, line string) {
	worst := []State{Failed, Killed, Stopped, Finished}
	var newest monitor.End
	for _, end := range ends {
		s := cmp.Or(State(end.Status), Killed)
		if at := slices.Index(worst, s); at < 0 || state != "" && at > slices.Index(worst, state) {
			continue
		}
		if s != state || end.Time.After(newest.Time) {
			state, newest = s, end
		}
	}
	return state, newest.Error
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
