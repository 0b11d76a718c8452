package buffer

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// group returns n experiences of a step.
func group(step int64, n int) trinity.Group {
	g := make(trinity.Group, n)
	for i := range g {
		g[i] = &trinity.Experience{ID: trinity.ExperienceID{Step: step, Task: "t", Run: i}, Tokens: []int32{1, 2}, Mask: []bool{false, true}}
	}
	return g
}

func TestQueueIsABuffer(t *testing.T) {
	o := trinitytest.BufferOptions{Capacity: 10}
	for name, memory := range map[string]int64{"all in memory": 1 << 30, "little in memory": 1000, "none in memory": 0} {
		for _, byRollout := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", by rollout ", byRollout), func(t *testing.T) {
				trinitytest.Buffer(t, o, func(t *testing.T, dir string) trinitytest.Store {
					log, err := OpenLog(dir)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { log.Close() })
					q := NewQueue(o.Capacity, memory, log)
					s := trinitytest.StoreOf(q)
					s.Rollouts = byRollout
					return s
				})
			})
		}
	}
}

// runs returns a group of runs with the given numbers of steps.
func runs(task string, lengths ...int) trinity.Group {
	var g trinity.Group
	for run, n := range lengths {
		for turn := range n {
			id := trinity.ExperienceID{Step: 1, Task: task, Run: run, Turn: turn}
			g = append(g, &trinity.Experience{ID: id, Tokens: []int32{1, 2}, Mask: []bool{false, true}})
		}
	}
	return g
}

// Take keeps rollouts of several steps whole. The capacity of a queue counts rollouts, not steps.
func TestQueueOfRunsOfSeveralSteps(t *testing.T) {
	q := NewQueue(4, 0, nil)
	put := func(groups ...trinity.Group) error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		return q.Sink("").Put(ctx, trinity.Delivery{Groups: groups})
	}
	for _, groups := range [][]trinity.Group{{runs("a", 2)}, {runs("a", 3), runs("b", 1)}} { // two rollouts of one id: the turns begin anew
		if err := put(groups...); err != nil {
			t.Fatal(err)
		}
	}
	if err := put(runs("c", 4, 1, 2)); err != nil {
		t.Errorf("3 rollouts of 6 experiences fill a queue of 4 rollouts: %v", err)
	}
	if err := put(runs("d", 1)); err == nil {
		t.Error("6 rollouts do not fill a queue of 4")
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{5, 5, 3} { // experiences of two rollouts each: 2 + 3, 1 + 4, 1 + 2
		take := trinity.Want{N: 2, Rollouts: true}
		taken, err := q.Take(t.Context(), take)
		if n := len(taken.Experiences()); err != nil || n != want || take.Count(taken.Groups) != 2 {
			t.Errorf("batch %d has %d experiences of %d rollouts, %v; want %d of 2", i+1, n, take.Count(taken.Groups), err, want)
		}
	}
}

// Both waits have a deadline. The error says who was waited for, which key sets how long, and what
// the queue holds.
func TestQueueWaitsHaveDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(2, 0, nil)
		q.TakeTimeout, q.PutTimeout = time.Minute, time.Hour
		if err := q.Sink("").Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{group(1, 3)}}); err != nil {
			t.Fatal(err)
		}
		_, takes := trinitytest.Take(t.Context(), q, 4, 0)
		puts := q.Sink("").Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{group(2, 1)}})
		for _, c := range []struct {
			err error
			say []string
		}{
			{takes, []string{"the explorer to put 4 experiences", "holds 3 rollouts", "experience_buffer.max_read_timeout of 1m0s passed"}},
			{puts, []string{"the trainer to make room", "holds 3 rollouts", "synchronizer.sync_timeout of 1h0m0s passed"}},
		} {
			for _, text := range c.say {
				if c.err == nil || !strings.Contains(c.err.Error(), text) {
					t.Errorf("got %v, want it to say %q", c.err, text)
				}
			}
		}
	})
}

func first(log Log) int64 {
	n, _ := log.Bounds()
	return n
}

// The cursor of an explorer that has not put anything for long survives when its record is trimmed.
func TestTrimmingKeepsCursors(t *testing.T) {
	log, err := OpenLog(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	q := NewQueue(100, 0, log)
	for _, name := range []string{"silent", "other"} {
		g := group(1, 1)
		if name == "silent" {
			g[0].Prompt = strings.Repeat("x", 65<<20) // a segment of its own
		}
		d := trinity.Delivery{Groups: []trinity.Group{g}, Cursor: []byte(`"` + name + `"`)}
		if err := q.Sink(name).Put(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	state, err := q.State()
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Trim(t.Context(), state); err != nil || first(log) != 0 {
		t.Fatalf("the log begins with record %d, %v; want 0, which nobody has taken", first(log), err)
	}
	if _, err := trinitytest.Take(t.Context(), q, 2, 0); err != nil {
		t.Fatal(err)
	}
	if state, err = q.State(); err != nil {
		t.Fatal(err)
	}
	if err := q.Trim(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	if first(log) == 0 {
		t.Fatal("nothing was trimmed")
	}
	q = NewQueue(100, 0, log)
	if err := q.Restore(state); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"silent", "other"} {
		if _, cursor, err := q.Sink(name).Resume(t.Context()); err != nil || string(cursor) != `"`+name+`"` {
			t.Errorf("%s goes on at %s, %v", name, cursor, err)
		}
	}
}

// After a resume, the queue counts only the rollouts that nobody has taken.
func TestResumedQueueCountsUntakenRollouts(t *testing.T) {
	log, err := OpenLog(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	q := NewQueue(4, 1000, log)
	put(t, q.Sink("explorer"), 1, 3)
	put(t, q.Sink("explorer"), 2, 1)
	take(t, q, 3)
	at := state(t, q)
	q = NewQueue(4, 1000, log)
	if err := q.Restore(at); err != nil {
		t.Fatal(err)
	}
	if got := q.held(); got != "1 rollouts (explorer may put more)" {
		t.Errorf("it holds %s, want the one that was not taken", got)
	}
}
