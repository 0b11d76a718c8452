package view

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/internal/trace"
)

// maxReason is how many characters of a failure's reason are shown.
const maxReason = 8000

// noStep is the error of a directory without any train step.
type noStep struct{ error }

// readFailures reads the newest failures of a run that has no train step; none is the
// error if there are no failures either.
func readFailures(run *rundir.Run, task string, none error) (found *Page, err error) {
	var newest time.Time
	for _, path := range run.Traces {
		all, damaged := trace.ReadFailures(path)
		p := &Page{Trace: path, Failures: newestOf(all, task), Damaged: damaged}
		if n := len(p.Failures); n > 0 && p.Failures[n-1].Time.After(newest) {
			found, newest = p, p.Failures[n-1].Time
		} else if damaged != nil {
			none = errors.Join(none, damaged)
		}
	}
	if found == nil {
		return nil, none
	}
	found.texts, err = trace.ReadTexts(found.Trace)
	return found, err
}

// newestOf returns the failures of the last explorer step that has any; task "" is all tasks.
func newestOf(all []trace.Failure, task string) (newest []trace.Failure) {
	for _, f := range all {
		if task != "" && f.Task != task {
			continue
		}
		if len(newest) > 0 && f.Step > newest[0].Step {
			newest = nil
		}
		if len(newest) == 0 || f.Step == newest[0].Step {
			newest = append(newest, f)
		}
	}
	return newest
}

// failed returns which rollout failed or which answer was dropped, and why.
func failed(f trace.Failure) (head, why string) {
	head = fmt.Sprintf("task %s, run %d", safetext.Printable(f.Task), f.Run)
	if f.Role != "" && f.Role != trinity.RoleExplorer {
		head = safetext.Printable(f.Role) + ": " + head
	}
	if f.Kind == trinity.DroppedAnswer {
		return head, reasonOf(f)
	}
	return head + " failed", fmt.Sprintf("by %s after %d retries: %s", safetext.Printable(string(f.Kind)), f.Retries, reasonOf(f))
}

// lost counts failed rollouts and dropped answers.
func lost(all []trace.Failure) string {
	dropped := 0
	for _, f := range all {
		if f.Kind == trinity.DroppedAnswer {
			dropped++
		}
	}
	switch failed := counted(len(all)-dropped, "failed rollout"); dropped {
	case 0:
		return failed
	case len(all):
		return counted(dropped, "dropped answer")
	default:
		return failed + " and " + counted(dropped, "dropped answer")
	}
}

// reasonOf returns the reason of a failure, which may have a stack: the lines after the first are
// indented.
func reasonOf(f trace.Failure) string {
	text, note := strings.TrimSpace(f.Reason), ""
	if all := []rune(text); len(all) > maxReason {
		text, note = string(all[:maxReason]), fmt.Sprintf("\n    … and %d more characters, which --json shows", len(all)-maxReason)
	}
	parts := strings.Split(text, "\n")
	for i, part := range parts {
		parts[i] = safetext.Printable(strings.ReplaceAll(part, "\t", "    "))
	}
	return strings.Join(parts, "\n    ") + note
}
