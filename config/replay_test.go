package config

import (
	"slices"
	"strings"
	"testing"
)

func TestReplayBuffer(t *testing.T) {
	on := func(args string) string { return replayKey + "={enable: true" + args + "}" }
	c := mustParse(t, base, Options{Overrides: []string{on(", reuse_cooldown_time: 0")}})
	if r := c.settled[0].replay(); r.PriorityFn != "linear_decay" || *r.ReuseCooldownTime != 0 {
		t.Errorf("%+v", r)
	}
	if slices.ContainsFunc(c.settled[0].Unused(), func(n Note) bool { return strings.HasPrefix(n.Key, replayKey) }) {
		t.Errorf("not used: %v", c.settled[0].Unused())
	}
	for _, c := range []struct {
		override, key, words string
	}{
		{on(", priority_fn: linear"), replayKey + ".priority_fn", "unknown priority fn"},
		{on(", priority_fn_args: {sigma: 1}"), replayKey + ".priority_fn_args.sigma", "unknown argument"},
		{on(", reuse_cooldown_time: -1"), replayKey + ".reuse_cooldown_time", "at least 0"},
	} {
		expectError(t, base, c.override, c.key, c.words, false)
	}
}

// Without a trainer, nobody reads the replay buffer.
func TestReplayBufferOfAnotherMode(t *testing.T) {
	for mode, unused := range map[string]bool{"bench": true, "explore": true, "train": false} {
		c := mustParse(t, base, Options{Overrides: []string{"mode=" + mode, "buffer.train_batch_size=8", replayKey + ".enable=true"}})
		if got := slices.ContainsFunc(c.settled[0].Unused(), func(n Note) bool { return n.Key == replayKey+".enable" }); got != unused {
			t.Errorf("mode %s: not used is %v, want %v", mode, got, unused)
		}
	}
}
