package record

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTheMeterShowsLongWorkOnly(t *testing.T) {
	read := func(m *meter) {
		clock := time.Unix(0, 0)
		m.now = func() time.Time { return clock }
		for second := range 26 { // a file of 25 s, then one that is read at once
			clock = time.Unix(int64(second), 0)
			m.Tell("a.csv", int64(second), 25)
		}
		m.Tell("b.csv", 0, 10)
		m.Tell("b.csv", 10, 10)
	}
	var lines []string
	read(&meter{doing: "reading ", say: func(s string) { lines = append(lines, s) }})
	if want := []string{"reading a.csv: 40 %, 10s", "reading a.csv: 80 %, 20s"}; !slices.Equal(lines, want) {
		t.Errorf("lines %q, want %q", lines, want)
	}
	var bar strings.Builder
	read(&meter{doing: "reading ", bar: &bar})
	if got := bar.String(); strings.Count(got, "\r") != 25 || !strings.HasSuffix(got, "\rreading a.csv: 100 %, 25s\x1b[K\n") {
		t.Errorf("bar %q", got)
	}
}
