package trinitytest

import "testing"

func TestEffortDependsOnTheEnvironment(t *testing.T) {
	if testing.Short() {
		t.Skip("-short is an effort of its own")
	}
	for _, c := range []struct {
		heavy, changed string
		want           Effort
	}{
		{"", "", Usual},
		{"", "buffer serve", Usual},
		{"", "buffer internal/run", Changed},
		{"", "engine/cpu/sampler", Changed},
		{"", "engine", Usual},
		{"", "runner", Usual},
		{"1", "", Heavy},
		{"1", "internal/run", Heavy},
	} {
		t.Setenv("TRINITY_HEAVY", c.heavy)
		t.Setenv("TRINITY_CHANGED", c.changed)
		if got := EffortFor("internal/run", "engine/cpu"); got != c.want {
			t.Errorf("TRINITY_HEAVY=%q TRINITY_CHANGED=%q: effort %d, want %d", c.heavy, c.changed, got, c.want)
		}
	}
}
