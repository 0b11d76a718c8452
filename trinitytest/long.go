package trinitytest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Effort says how many of the long tests run.
type Effort int

// The efforts, from the least to the most.
const (
	Short   Effort = iota // go test -short
	Usual                 // go test ./...
	Changed               // the test's rooms have changed since the last landing: TRINITY_CHANGED names one of them
	Heavy                 // TRINITY_HEAVY=1
)

// EffortFor returns the effort for tests of the given rooms, which are folders such as "internal/run" or
// "engine/cpu".
func EffortFor(rooms ...string) Effort {
	switch {
	case os.Getenv("TRINITY_HEAVY") != "":
		return Heavy
	case testing.Short():
		return Short
	case slices.ContainsFunc(strings.Fields(os.Getenv("TRINITY_CHANGED")), func(changed string) bool { return inRooms(changed, rooms) }):
		return Changed
	}
	return Usual
}

func inRooms(folder string, rooms []string) bool {
	return slices.ContainsFunc(rooms, func(room string) bool { return folder == room || strings.HasPrefix(folder, room+"/") })
}

// Long skips a long test, unless one of its rooms has changed or TRINITY_HEAVY is set. why says
// what takes long.
func Long(t testing.TB, why string, rooms ...string) {
	t.Helper()
	if EffortFor(rooms...) < Changed {
		leaveOut(t, fmt.Sprintf("%s: runs when %s changed (TRINITY_CHANGED), or with TRINITY_HEAVY=1", why, strings.Join(rooms, ", ")))
	}
}

// TooLong skips a test of many minutes, unless TRINITY_HEAVY is set.
func TooLong(t testing.TB, why string) {
	t.Helper()
	if EffortFor() < Heavy {
		leaveOut(t, why+": runs with TRINITY_HEAVY=1")
	}
}

// leaveOut skips a test and appends it to the file that TRINITY_LEFT_OUT names, which `.ci/run`
// prints.
func leaveOut(t testing.TB, why string) {
	t.Helper()
	if list := os.Getenv("TRINITY_LEFT_OUT"); list != "" {
		f, err := os.OpenFile(list, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := fmt.Fprintf(f, "%s: %s\n", t.Name(), why); err != nil {
			t.Fatal(err)
		}
	}
	t.Skip(why)
}
