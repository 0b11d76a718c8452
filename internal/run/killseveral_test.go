package run_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/trinitytest"
)

const (
	severalRows   = 24 // of the taskset; each of the two explorers has half
	severalEpochs = 2
)

// The test kills two named explorers and a trainer at random, alone and together. Each explorer
// rolls out each of its rows once per epoch. The trainer trains once on every experience that it
// acknowledged.
func TestSeveralExplorersAreKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes: not in -short")
	}
	for i, c := range []scenario{
		{"in step", nil, (*killing).everyTaskOnce},
		{"in step in a database", inDatabase, (*killing).everyTaskOnce},
		{"fully asynchronous", []string{"synchronizer.sync_style=fully_async"}, (*killing).everyTaskOnce},
		{"fully asynchronous in a database", append(fields(inDatabase), "synchronizer.sync_style=fully_async"), (*killing).everyTaskOnce},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, tiny, rl)
			rows := strings.Join(strings.SplitAfter(read(t, filepath.Join(p.dir, "train.jsonl")), "\n")[:severalRows], "")
			write(t, filepath.Join(p.dir, "few.jsonl"), rows)
			s := &killing{scenario: c, p: p, rng: rand.New(rand.NewPCG(uint64(i), 6)), acked: map[string]bool{}, remains: p.remaining}
			s.overrides = append(fields(c.overrides), noEvaluation, "buffer.explorer_input.taskset.path="+filepath.Join(p.dir, "few.jsonl"))
			c := crowd{killing: s}
			for _, overrides := range [][]string{half("left", "1/2"), half("right", "2/2"), trainingTwo} {
				c.sides = append(c.sides, &side{killing: s, overrides: overrides, killed: c.alsoOthers})
			}
			c.sides[2].killed = c.note
			for range 6 / every(6, 6, 6) {
				c.plan()
				s.together(t, c.sides...)
			}
			t.Logf("%d kills in %d runs", s.kills, s.runs)
		})
	}
}

// crowd is a run of several explorers. The last side is the trainer.
type crowd struct {
	*killing
	sides []*side
}

// plan draws the kills of each side.
func (c *crowd) plan() {
	const hits = 100 // of all failpoints together, which a process reaches in a part of the run
	for _, d := range c.sides {
		for range 3 {
			d.rules = append(d.rules, fmt.Sprintf("*=kill@%d", 1+c.rng.Int64N(hits)))
		}
	}
}

// alsoOthers kills up to two more sides.
func (c *crowd) alsoOthers(*testing.T) {
	for range c.rng.IntN(3) {
		_ = c.sides[c.rng.IntN(len(c.sides))].process.cmd.Process.Kill() // it may have ended
	}
}

// note keeps the keys that the trainer had acknowledged when it was killed.
func (c *crowd) note(t *testing.T) {
	t.Helper()
	for _, key := range c.acknowledged(t) {
		c.acked[key] = true
	}
	c.alsoOthers(t)
}

// everyTaskOnce checks that each explorer rolled out each of its rows once per epoch, and that the
// trainer took all these rollouts.
func (s *killing) everyTaskOnce(t *testing.T) {
	t.Helper()
	const repeats = 4
	s.allOnce(t, severalRows*severalEpochs*repeats)
	rollouts := map[string]int{}
	for key := range s.uses(t, 1) {
		id, _, _ := strings.Cut(key, " ")
		at := strings.Split(id, "/") // step, taskset, row, run, turn
		step, _ := strconv.Atoi(at[0])
		row, err := strconv.Atoi(at[2])
		if who := []string{"left", "right"}[row%2]; err != nil || at[1] != who+":digits" {
			t.Errorf("%s is of explorer %s", id, who)
		}
		rollouts[fmt.Sprintf("row %d in epoch %d", row, (step-1)*3*2/severalRows)]++
	}
	for task, n := range rollouts {
		if n != repeats {
			t.Errorf("%s was rolled out %d times, want %d", task, n, repeats)
		}
	}
	if len(rollouts) != severalRows*severalEpochs {
		t.Errorf("%d tasks were rolled out in %d epochs, want %d", len(rollouts), severalEpochs, severalRows*severalEpochs)
	}
}

// If the only explorer never comes back, the trainer's wait ends with an error that names it and
// its lease.
func TestALostExplorerIsNamed(t *testing.T) {
	trinitytest.Long(t, "waits for a lease to run out", "internal/run", "internal/serve/fleet")
	t.Parallel()
	p := newProject(t, tiny, rl)
	trainer := p.start(t, nil, append(fields(training), "buffer.trainer_input.experience_buffer.max_read_timeout=30")...)
	if !p.killedAt(t, "explorer.delivered=kill@3", exploring...) {
		t.Fatal("the explorer was not killed")
	}
	trainer.fails(t, "waiting for the explorer", "max_read_timeout", "explorer explorer (host ", "and has lost its lease")
	if log := read(t, filepath.Join(p.job(), "log", "explorers.log")); !strings.Contains(log,
		"and has lost its lease of 10s: the trainer waits for it; start it again") {
		t.Errorf("the log does not say who is waited for:\n%s", log)
	}
}
