package run_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// half returns the overrides of one of two explorers, each with half of the tasks of a step and
// half of the rows.
func half(name, share string) []string {
	return []string{"mode=explore", "explorer.name=" + name, "explorer.share=" + share}
}

var trainingTwo = []string{"mode=train", "trainer.total_steps=8", "buffer.train_batch_size=24"}

// Two explorers roll out for one trainer. One is killed and comes back. The trainer has every
// rollout once, and no two with the same id.
func TestTwoExplorersShareARun(t *testing.T) {
	for _, style := range []string{"fixed", "fully_async"} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, tiny, rl)
			override := []string{"synchronizer.sync_style=" + style, "explorer.eval_interval=100"}
			left, right := append(half("left", "1/2"), override...), append(half("right", "2/2"), override...)
			trainer := p.start(t, nil, append(fields(trainingTwo), override...)...)
			other := p.start(t, nil, right...)
			killed := p.killedAt(t, "explorer.delivered=kill@3", left...)
			p.start(t, nil, left...).finish(t)
			other.finish(t)
			trainer.finish(t)
			if !killed {
				t.Error("the explorer was not killed")
			}

			seen := map[trinity.ExperienceID]bool{}
			for _, e := range p.delivered(t, trinity.SourceState{}) {
				even := strings.ContainsAny(e.ID.Task[len(e.ID.Task)-1:], "02468")
				if who, _, _ := strings.Cut(e.ID.Task, ":"); seen[e.ID] || even != (who == "left") {
					t.Errorf("%s was delivered twice, or by the other explorer", e.ID)
				}
				seen[e.ID] = true
			}
			if want := 2 * 8 * 3 * 4; len(seen) != want {
				t.Errorf("%d rollouts were delivered, want %d", len(seen), want)
			}
			if left := p.delivered(t, p.position(t, 8)); len(left) != 0 {
				t.Errorf("after the last of 8 steps, of 24 rollouts each, %d are left", len(left))
				t.Log(read(t, filepath.Join(p.job(), "log", "explorers.log")))
			}
			for _, name := range []string{"left", "right"} {
				if !exists(filepath.Join(p.job(), "monitor", name, "metrics.jsonl")) {
					t.Errorf("explorer %s has no metrics of its own", name)
				}
			}
		})
	}
}

// An explorer that never comes back does not stop the others, and the log names it.
func TestALostExplorerDoesNotStopTheOthers(t *testing.T) {
	trinitytest.Long(t, "waits for a lease to run out", "internal/run", "internal/serve/fleet")
	t.Parallel()
	p := newProject(t, tiny, rl)
	trainer := p.start(t, nil, trainingTwo...)
	other := p.start(t, nil, half("right", "2/2")...)
	if !p.killedAt(t, "explorer.delivered=kill@3", half("left", "1/2")...) {
		t.Fatal("the explorer was not killed")
	}
	other.finish(t)
	trainer.finish(t)
	if got := p.trained(t); got != 8 {
		t.Errorf("the trainer ended after step %d, want 8", got)
	}
	if log := read(t, filepath.Join(p.job(), "log", "explorers.log")); !strings.Contains(log, "explorer left (host ") ||
		!strings.Contains(log, " and has lost its lease of 10s: ") {
		t.Errorf("the log does not say who was lost:\n%s", log)
	}
}

// The second explorer of one name is refused, and its error names the first. Without a trainer, an
// explorer says what it has waited for, and where.
func TestExplorersAreRefused(t *testing.T) {
	t.Parallel()
	p := newProject(t, tiny, rl)
	elsewhere := p.copyOf(t)
	token, port := "TRINITY_TOKEN=of the test", freePort(t)
	at := childJoin + "=http://127.0.0.1:" + port
	elsewhere.start(t, []string{token, at}, append(half("left", "1/1"), "synchronizer.sync_timeout=0.2")...).
		fails(t, "waiting for the trainer of http://127.0.0.1:"+port+" to let explorer left join", "it was never reached",
			"synchronizer.sync_timeout of 200ms passed")

	const endless = "trainer.total_steps=100000"
	trainer := p.start(t, []string{token}, append(fields(trainingTwo), endless, "trainer.listen_address=127.0.0.1:"+port)...)
	if !trainer.await(t, p.appears("trainer.json")) {
		t.Fatal("the trainer has ended")
	}
	first := p.start(t, nil, append(half("left", "1/2"), "buffer.total_steps=100000")...)
	if !first.await(t, p.appears("monitor/left/metrics.jsonl")) {
		t.Fatal("the explorer has ended")
	}
	elsewhere.start(t, []string{token, at}, half("left", "1/1")...).fails(t, "an explorer named left is alive, on host ",
		"give this one another explorer.name")
	elsewhere.start(t, []string{"TRINITY_TOKEN=another", at}, half("right", "1/1")...).fails(t, "the token is not the trainer's")
	p.start(t, nil, half("right", "1/2")...).fails(t, "explorer left (host ",
		"has the share 1/2 of the same rows: give this one another explorer.share")
	p.start(t, nil, append(half("right", "2/2"), "algorithm.algorithm_type=raft")...).fails(t,
		"algorithm.algorithm_type of the explorer is raft, and of the trainer grpo")
	now := func() bool { return true }
	if !first.signalWhen(t, os.Interrupt, now) || !trainer.signalWhen(t, os.Interrupt, now) {
		t.Error("a process ended before it was told to")
	}
}
