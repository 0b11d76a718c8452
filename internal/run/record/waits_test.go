package record

import (
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/monitor"
)

// The run's description tells of long waits alone, until they end.
func TestLongWaitsAreTold(t *testing.T) {
	dir := t.TempDir()
	monitors, err := monitor.Open(nil, nil, monitor.Run{Dir: dir, Name: "n", Parts: []string{"explorer_a", "trainer"}})
	if err != nil {
		t.Fatal(err)
	}
	defer monitor.Close(monitors, "")
	w := &waits{
		dir: dir, parts: map[string]string{"explorer": "explorer_a"}, after: time.Hour, who: map[string]string{},
		timers: map[string]*time.Timer{},
		told:   map[string]string{},
	}
	told := func() string {
		t.Helper()
		about, err := rundir.ReadAbout(dir)
		if err != nil {
			t.Fatal(err)
		}
		return about.Parts["explorer_a"].For
	}
	until := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); told() != want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("told %q, want %q", told(), want)
			}
		}
	}
	w.set("explorer", "trainer")
	w.set("explorer", "")
	w.set("nobody", "trainer")
	if got := told(); got != "" || w.timers["nobody"] != nil {
		t.Errorf("told %q of a short wait", got)
	}
	w.after = 0
	w.set("explorer", "trainer")
	until("trainer")
	w.set("explorer", "")
	until("")
	if err := monitor.KeepEnd(dir, []string{"explorer_a"}, monitor.Stopped, ""); err != nil {
		t.Fatal(err)
	}
	w.set("explorer", "trainer")
	w.tell("explorer")
	if got := told(); got != "" {
		t.Errorf("a process that has ended waits for %s", got)
	}
}
