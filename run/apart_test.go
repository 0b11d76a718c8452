package run_test

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// apart is the same run as rl in two processes: one explores, one trains.
var (
	exploring = []string{"mode=explore"}
	training  = []string{"mode=train", "trainer.total_steps=8", "buffer.train_batch_size=12"}
)

var inDatabase = []string{"buffer.trainer_input.experience_buffer.storage_type=sql"}

// An explorer and a trainer of two processes do together what one process does; each may be killed and started again.
func TestTwoProcesses(t *testing.T) {
	for _, c := range []struct {
		name      string
		overrides []string
	}{
		{"synchronous", nil},
		{"interval 2", []string{"synchronizer.sync_interval=2"}},
		{"critic", withCritic},
		{"database", inDatabase},
		{"everything filtered out", []string{"algorithm.advantage_fn_args={std_threshold: 1e9}"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			one := newProject(t, tiny, rl)
			one.start(t, nil, c.overrides...).finish(t)
			two := one.copyOf(t)
			explore, train := append(fields(c.overrides), exploring...), append(fields(c.overrides), training...)

			explorer := two.start(t, nil, explore...)
			if !two.start(t, nil, train...).signalWhen(t, os.Kill, two.appears("global_step_2")) {
				t.Error("the trainer was not killed")
			}
			trainer := two.start(t, nil, train...)
			if !explorer.signalWhen(t, os.Kill, two.appears("global_step_4")) {
				t.Error("the explorer was not killed")
			}
			two.start(t, nil, explore...).finish(t)
			trainer.finish(t)

			want, got := results(t, one.dir), results(t, two.dir)
			for _, r := range []result{want, got} {
				maps.DeleteFunc(r.files, func(name, _ string) bool { return filepath.Base(name) == "state.json" }) // says whether a sampler is attached
			}
			got.sameAs(t, want)
		})
	}
}
