package studio

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/rundir"
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

// stateOf returns the state of a run, and the line that it failed with or whom it waits for. parts say
// what its processes told, updated is the time of its newest file, and complete that it has made all
// its steps.
func stateOf(dir string, parts map[string]rundir.Part, updated time.Time, complete bool) (State, string) {
	open, err := rundir.Holders(dir, parts)
	if err != nil {
		open = nil // a run of another user, or one that is gone: its ends tell
	}
	elsewhere, works := false, false
	var awaited []string
	for name, h := range open {
		lives, known := h.Lives()
		elsewhere = elsewhere || !known
		if !lives && (known || time.Since(updated).Abs() > quiet) {
			continue
		}
		part := parts[name]
		if works = works || part.For == ""; !slices.Contains(awaited, part.For) {
			awaited = append(awaited, part.For)
		}
	}
	switch {
	case works:
		return Running, ""
	case awaited != nil:
		slices.Sort(awaited)
		return Waiting, strings.Join(awaited, ", ")
	}
	state, line := ended(parts)
	switch {
	case state != "":
		return state, line
	case complete || exists(filepath.Join(dir, rundir.StageDone)):
		return Finished, ""
	case elsewhere || len(open) == 0:
		return Unknown, ""
	}
	return Killed, ""
}

// ended returns how a run ended of which no process lives, "" if that is not known, and why it failed.
// It ended as the part that ended worst.
func ended(parts map[string]rundir.Part) (state State, line string) {
	worst := []State{Failed, Killed, Stopped, Finished}
	var newest rundir.Part
	for _, part := range parts {
		s := cmp.Or(State(part.Status), Killed)
		if at := slices.Index(worst, s); at < 0 || state != "" && at > slices.Index(worst, state) {
			continue
		}
		if s != state || part.Time.After(newest.Time) {
			state, newest = s, part
		}
	}
	return state, newest.Error
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
