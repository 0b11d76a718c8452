package config

import (
	"strings"
	"testing"
)

// Load warns if a train step asks for more rollouts than an explore step makes.
func TestShortStepsGiveAWarning(t *testing.T) {
	for _, c := range []struct {
		overrides []string
		warns     bool
	}{
		{nil, false},
		{[]string{"buffer.train_batch_size=8"}, false},
		{[]string{"buffer.train_batch_size=9"}, true},
		{[]string{"buffer.train_batch_size=9", "synchronizer.sync_style=fully_async"}, false},
		{[]string{"buffer.train_batch_size=9", "mode=train"}, false}, // there may be several explorers
	} {
		cfg := mustParse(t, base, Options{Overrides: append([]string{"buffer.batch_size=2", "algorithm.repeat_times=4"}, c.overrides...)})
		if got := strings.Contains(strings.Join(cfg.Warnings, "\n"),
			"buffer.train_batch_size: is 9, and an explore step gives 8 rollouts"); got != c.warns {
			t.Errorf("%v: warned %v", c.overrides, got)
		}
	}
}
