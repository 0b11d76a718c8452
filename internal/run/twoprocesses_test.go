package run_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/trinitytest"
)

// apart is the same run as rl in two processes: one explores, one trains.
var (
	exploring = []string{"mode=explore", "trainer.trainer_type=verl"}
	training  = []string{"mode=train", "explorer.rollout_model.engine_type=vllm", "trainer.total_steps=8", "buffer.train_batch_size=12"}
)

// afterFive kills an explorer after its fifth delivery.
const afterFive = failpoint.Variable + "=explorer.delivered=kill@5"

var inDatabase = []string{"buffer.trainer_input.experience_buffer.storage_type=sql"}

// An explorer and a trainer in two processes end with the bytes of one process. Each may be killed
// and started again.
func TestTwoProcessesEndWithTheBytesOfOne(t *testing.T) {
	kept := filepath.Join(t.TempDir(), "kept.parquet")
	recording(t, kept)
	for _, c := range []struct {
		name      string
		overrides []string
	}{
		{"synchronous", nil},
		{"interval 2", []string{"synchronizer.sync_interval=2"}},
		{"offset 1", []string{"synchronizer.sync_offset=1"}},
		{"lora", []string{"model.lora_configs=[{lora_rank: 4, lora_alpha: 4, target_modules: all-linear}]"}},
		{"replay", replay("priority_fn: decay_limit_randomization, reuse_cooldown_time: 0")},
		{"critic", withCritic},
		{"database", inDatabase},
		{"everything filtered out", []string{"algorithm.advantage_fn_args={std_threshold: 1e9}"}},
		{"an input", []string{inputs + "={old: {path: " + kept + ", batch_size: 2}}", "buffer.train_batch_size=20"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			one := newProject(t, tiny, rl)
			one.start(t, nil, c.overrides...).finish(t)
			two := one.copyOf(t)
			explore, train := append(fields(c.overrides), exploring...), append(fields(training), c.overrides...)

			explorer := two.start(t, []string{afterFive}, explore...)
			if !two.killedAt(t, "trainer.save=kill@2", train...) { // after step 2
				t.Error("the trainer was not killed")
			}
			trainer := two.start(t, nil, train...)
			if !explorer.killedWithin(t, 0) {
				t.Error("the explorer was not killed")
			}
			two.start(t, nil, explore...).finish(t)
			trainer.finish(t)

			if exists(filepath.Join(two.job(), "weights_*")) {
				t.Error("of a run that has ended weights are left that its checkpoints have")
			}
			results(t, two.dir).sameAs(t, results(t, one.dir))
		})
	}
}

// The last checkpoint may need weights that it does not contain. The run keeps them when it ends,
// so the same command ends well again.
func TestAFinishedRunKeepsTheWeightsThatItResumesWith(t *testing.T) {
	t.Parallel()
	p := newProject(t, tiny, rl)
	override := []string{"synchronizer.sync_interval=3", "buffer.total_steps=5", "trainer.total_steps=5"}
	for range 2 {
		explorer := p.start(t, nil, append(fields(exploring), override...)...)
		p.start(t, nil, append(fields(training), override...)...).finish(t)
		explorer.finish(t)
		if got, _ := filepath.Glob(filepath.Join(p.job(), "weights_*")); len(got) != 1 || filepath.Base(got[0]) != "weights_3" {
			t.Errorf("there are %v, want weights_3 alone", got)
		}
	}
}

// If neither process waits for the other, kills of explorer and trainer lose no delivered rollout,
// and the trainer takes none twice.
func TestTwoProcessesThatDoNotWaitLoseNothing(t *testing.T) {
	for _, style := range []string{"explorer_driven", "fully_async"} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, tiny, rl)
			override := []string{"synchronizer.sync_style=" + style, "explorer.eval_interval=100"}
			explore, train := append(fields(override), exploring...), append(fields(override), training...)
			explorer := p.start(t, []string{afterFive}, explore...)
			if !p.killedAt(t, "trainer.save=kill@2", train...) {
				t.Error("the trainer was not killed")
			}
			trainer := p.start(t, nil, train...)
			if !explorer.killedWithin(t, 0) {
				t.Error("the explorer was not killed")
			}
			p.start(t, nil, explore...).finish(t)
			trainer.finish(t)
			p.eachOnce(t, 8)
		})
	}
}

// An explorer on another machine has a directory of its own. It finds the trainer by URL and token.
func TestAnExplorerJoinsByURL(t *testing.T) {
	t.Parallel()
	p := newProject(t, tiny, rl)
	elsewhere := p.copyOf(t)
	const token = "TRINITY_TOKEN=of the test"
	port := freePort(t)
	trainer := p.start(t, []string{token}, append(training, "trainer.listen_address=127.0.0.1:"+port)...)
	elsewhere.start(t, []string{token, childJoin + "=http://127.0.0.1:" + port}, exploring...).finish(t)
	trainer.finish(t)
	if got := curve(t, elsewhere.job(), "explorer", "rollout/accuracy/mean"); len(got) != 8 {
		t.Errorf("the explorer has logged %d steps, want 8", len(got))
	}
	if got := curve(t, p.job(), "trainer", "actor/grad_norm"); len(got) == 0 {
		t.Error("the trainer has trained on nothing")
	}
	p.start(t, nil, exploring...).finish(t) // an explorer that comes too late has nothing to do
	log := read(t, filepath.Join(p.job(), "log", "explorers.log"))
	if strings.Count(log, ", as published") < 8 || strings.Contains(log, "of the test") {
		t.Errorf("the log does not say that every version has arrived as it was published:\n%s", log)
	}
	_, err := run.Run(t.Context(), t.Context(), p.load(t), run.Options{Say: func(string) {}, Join: "http://127.0.0.1:" + port})
	oneLine(t, err, "--join: mode both joins no trainer: set mode to explore or serve")
}

// freePort returns a port that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(trinitytest.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Mode explore writes the rollouts of a model that nobody trains to files. Each rollout is there
// once, however often the explorer is killed.
func TestModeExploreWritesFiles(t *testing.T) {
	t.Parallel()
	p := newProject(t, tiny, rl)
	override := append(fields(exploring), "buffer.trainer_input.experience_buffer.storage_type=file")
	dir := filepath.Join(p.job(), "buffer", "experience_buffer.jsonl")
	for step := 2; step <= 4; step += 2 {
		file := filepath.Join(dir, fmt.Sprintf("step-%09d.jsonl", step))
		p.start(t, nil, override...).signalWhen(t, os.Kill, func() bool { return exists(file) })
	}
	p.start(t, nil, override...).finish(t)
	seen, all := map[string]bool{}, experiences(t, dir)
	for _, e := range all {
		seen[e.ID.String()] = true
	}
	if want := 8 * 3 * 4; len(seen) != want || len(all) != want {
		t.Errorf("%d rollouts in %d lines, want %d", len(seen), len(all), want)
	}
}
