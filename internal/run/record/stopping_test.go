package record

import "testing"

func TestAStopSaysWhatItWaitsFor(t *testing.T) {
	var a Activity
	const soon = "stops as soon as it can; Ctrl-C again ends it at once"
	const trains = "stops after the step of the trainer (trains step 7, 3/8), with a checkpoint; Ctrl-C again ends it at once"
	for _, c := range []struct {
		role, doing string
		total       int
		want        string
	}{
		{"explorer", "explores step 8", 24, soon},
		{"trainer", "trains step 7", 8, trains},
		{"explorer", "explores step 9", 24, trains},
		{"trainer", "writes the checkpoint of step 7", 1,
			"stops after the step of the trainer (writes the checkpoint of step 7), with a checkpoint; Ctrl-C again ends it at once"},
		{"trainer", "waits for experiences", 0, soon},
	} {
		a.set(c.role, c.doing, min(3, c.total), c.total)
		if got := a.Stopping(); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.role, c.doing, got, c.want)
		}
	}
}
