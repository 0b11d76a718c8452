package run_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/run/settle"
)

// A run resumes in two processes and in one, in turn, each time after a kill. If explorer and
// trainer keep step, it ends with the bytes of a run that was never killed.
func TestARunResumesInAnotherMode(t *testing.T) {
	for _, c := range []struct {
		name      string
		overrides []string
	}{
		{"synchronous", nil},
		{"interval 3", []string{"synchronizer.sync_interval=3"}},
		{"lora", []string{"synchronizer.sync_interval=3", "model.lora_configs=[{lora_rank: 4, lora_alpha: 4, target_modules: all-linear}]"}},
		{"replay", replay("priority_fn: decay_limit_randomization, reuse_cooldown_time: 0")},
		{"database", inDatabase},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			whole, overrides := newProject(t, tiny, rl), append([]string{"trainer.save_interval=1"}, c.overrides...)
			whole.start(t, nil, overrides...).finish(t)
			p := whole.copyOf(t)
			p.changesModes(t, overrides...)
			results(t, p.dir).sameAs(t, results(t, whole.dir))
		})
	}
}

// changesModes runs to the end, in turn in modes train and explore, and in mode both.
func (p project) changesModes(t *testing.T, overrides ...string) {
	t.Helper()
	apart := func() {
		explorer := p.start(t, nil, append(fields(overrides), exploring...)...)
		if !p.killedAt(t, "trainer.save=kill@2", append(fields(overrides), training...)...) {
			t.Error("the trainer was not killed")
		}
		explorer.signalWhen(t, os.Kill, func() bool { return true }) // it may have ended
	}
	apart()                                                  // after step 1
	if !p.killedAt(t, "trainer.save=kill@3", overrides...) { // after step 3
		t.Error("mode both was not killed")
	}
	apart() // after step 4
	p.start(t, nil, overrides...).finish(t)
	if exists(filepath.Join(p.job(), "weights_*")) || exists(filepath.Join(p.job(), "trainer.json")) {
		t.Error("of the trainer of another process something is left that is not true any more")
	}
}

// If explorer and trainer do not wait for each other, a run that resumes in another mode loses
// nothing and explores nothing twice.
func TestAnotherModeLosesNothing(t *testing.T) {
	for _, style := range []string{"explorer_driven", "fully_async"} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, tiny, rl)
			p.changesModes(t, "trainer.save_interval=1", "synchronizer.sync_style="+style, "explorer.eval_interval=100")
			p.eachOnce(t, 8)
		})
	}
}

// eachOnce checks that the explorer put the rollouts of so many steps once, and that the trainer
// took them all.
func (p project) eachOnce(t *testing.T, steps int64) {
	t.Helper()
	seen := map[trinity.ExperienceID]bool{}
	for _, e := range p.delivered(t, trinity.SourceState{}) {
		if seen[e.ID] {
			t.Errorf("%s was delivered twice", e.ID)
		}
		seen[e.ID] = true
	}
	if len(seen) != int(steps)*3*4 {
		t.Errorf("%d rollouts were delivered, want %d", len(seen), steps*3*4)
	}
	if left := p.delivered(t, p.position(t, steps)); len(left) != 0 {
		t.Errorf("after the last of %d steps, of 12 rollouts each, %d are left", steps, len(left))
	}
}

// With a shorter interval, a resumed run needs a version that the run before it did not publish. It
// trains on no empty step meanwhile.
func TestAShorterIntervalResumes(t *testing.T) {
	for _, interval := range []string{"1", "2"} {
		p := newProject(t, tiny, rl)
		for _, set := range [][]string{{"buffer.total_steps=3", "synchronizer.sync_interval=4"},
			{"buffer.total_steps=6", "synchronizer.sync_interval=" + interval}} {
			if _, err := p.run(t, set...); err != nil {
				t.Fatal(err)
			}
		}
		p.eachOnce(t, 6)
	}
}

// A position in an experience buffer is not a position in a file: a run cannot resume from one to
// the other.
func TestABufferDoesNotResumeFromADataset(t *testing.T) {
	p := newProject(t, tiny, rl)
	kept := filepath.Join(p.dir, "kept.jsonl")
	if _, err := p.copyOf(t).run(t, "buffer.total_steps=2", "data_processor.experience_pipeline.output_save_path="+kept); err != nil {
		t.Fatal(err)
	}
	file := []string{"mode=train", "buffer.train_batch_size=12",
		"buffer.trainer_input.experience_buffer={storage_type: file, path: '" + kept + "'}"}
	for _, c := range []struct {
		first, then []string
		want        string
	}{
		{nil, file, "is file and was queue"},
		{file, nil, "is queue and was file"},
	} {
		q := p.copyOf(t)
		if _, err := q.run(t, append(c.first, "buffer.total_steps=1")...); err != nil {
			t.Fatal(err)
		}
		_, err := q.run(t, append(c.then, "buffer.total_steps=2")...)
		oneLine(t, err, "buffer.trainer_input.experience_buffer.storage_type: "+c.want+", so the run cannot go on from global_step_1")
	}
}

// Mode both has one explorer, which does not know what others have explored.
func TestOneExplorerDoesNotResumeForSeveral(t *testing.T) {
	p := newProject(t, tiny, rl)
	write(t, filepath.Join(p.job(), "explorers.json"),
		`{"left": {"closed": false, "share": {"part": 1, "of": 2}}, "explorer": {"closed": false, "share": {"part": 2, "of": 2}}}`)
	_, checked := settle.Facts(p.load(t).Settled()[0])
	_, ran := p.run(t)
	for _, err := range []error{checked, ran} {
		oneLine(t, err, "config.yaml", "mode: is both, which has explorer explorer alone, and the run has the explorers left",
			"resume in modes train and explore")
	}
}

// A finished run resumes in another mode with the weights that it samples with, even if it has
// trained further since.
func TestAFinishedRunGetsMoreStepsInAnotherMode(t *testing.T) {
	const between = "synchronizer.sync_interval=3"
	steps := func(n string) []string {
		return []string{between, "buffer.total_steps=" + n, "trainer.total_steps=" + n}
	}
	both := func(t *testing.T, p project, n string) { p.start(t, nil, steps(n)...).finish(t) }
	apart := func(t *testing.T, p project, n string) {
		trainer := p.start(t, nil, append(steps(n), "mode=train", "buffer.train_batch_size=12")...)
		p.await(t, trainer)
		p.start(t, nil, append(steps(n), exploring...)...).finish(t)
		trainer.finish(t)
	}
	whole := newProject(t, tiny, rl)
	both(t, whole, "4")
	both(t, whole, "8")
	for name, modes := range map[string][2]func(*testing.T, project, string){"two processes": {both, apart}, "one process": {apart, both}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := whole.copyOf(t)
			modes[0](t, p, "4")
			modes[1](t, p, "8")
			results(t, p.dir).sameAs(t, results(t, whole.dir))
		})
	}
}
