package buffer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// openReplay returns a buffer with its log in a directory. Options that are not set have room for
// everything.
func openReplay(t *testing.T, dir string, o ReplayOptions) *Replay {
	t.Helper()
	log, err := OpenLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	if o.Priority == nil {
		o.Priority = &linearDecay{Decay: 2}
	}
	if o.Capacity == 0 {
		o.Capacity = 1000
	}
	r := NewReplay(o, log)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestReplayIsABuffer(t *testing.T) {
	for name, memory := range map[string]int64{"all in memory": 1 << 30, "little in memory": 1000, "none in memory": 0} {
		for _, byRollout := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", by rollout ", byRollout), func(t *testing.T) {
				trinitytest.Buffer(t, trinitytest.BufferOptions{}, func(t *testing.T, dir string) trinitytest.Store {
					r := openReplay(t, dir, ReplayOptions{Memory: memory, ByRollout: byRollout})
					s := trinitytest.StoreOf(r)
					s.Rollouts = byRollout
					return s
				})
			})
		}
	}
}

// versioned returns a group of n experiences of a task and a version.
func versioned(task string, version int64, n int) trinity.Group {
	g := group(1, n)
	for _, e := range g {
		e.ID.Task, e.Versions = task, [2]int64{version, version}
	}
	return g
}

func deliver(t *testing.T, r *Replay, groups ...trinity.Group) {
	t.Helper()
	if err := r.Sink("").Put(t.Context(), trinity.Delivery{Groups: groups, Cursor: json.RawMessage(`1`)}); err != nil {
		t.Fatal(err)
	}
}

func pause(t *testing.T, b trinity.Buffer, until int64) {
	t.Helper()
	if err := b.Sink("").Pause(t.Context(), until); err != nil {
		t.Fatal(err)
	}
}

// takes takes n experiences and returns their tasks.
func takes(t *testing.T, r *Replay, n int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	exps, err := trinitytest.Take(ctx, r, n, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return tasks(exps)
}

// last returns the metrics of the batch that was taken last, and of what was left out since.
func (r *Replay) last() trinity.Metrics {
	all := r.batch
	all.add(r.metrics)
	m := all.metrics()
	m["sample/replay_groups"] = float64(len(r.waiting.items) + len(r.cooling))
	return m
}

func tasks(exps []*trinity.Experience) string {
	var all []string
	for _, e := range exps {
		all = append(all, e.ID.Task)
	}
	return strings.Join(all, "")
}

func TestPriorities(t *testing.T) {
	for _, c := range []struct {
		name string
		args map[string]any
		of   Replayed
		want float64
		keep bool
	}{
		{"linear_decay", nil, Replayed{Version: 7, Uses: 2, Noise: 5}, 3, true},
		{"linear_decay", map[string]any{"decay": 0.5}, Replayed{Version: 7, Uses: 100}, -43, true},
		{"decay_limit_randomization", nil, Replayed{Version: 7, Uses: 2, Noise: 5}, 3, true},
		{"decay_limit_randomization", map[string]any{"sigma": 2.0}, Replayed{Version: 7, Uses: 2, Noise: 0.25}, 3.5, true},
		{"decay_limit_randomization", nil, Replayed{Version: 7, Uses: 3}, 1, false},
		{"decay_limit_randomization", map[string]any{"use_count_limit": 0}, Replayed{Version: 7, Uses: 30}, -53, true},
		{"linear_decay_use_count_control_randomization", map[string]any{"use_count_limit": 1}, Replayed{Uses: 1}, -2, false},
	} {
		f, err := PriorityFuncs.Build(c.name, c.args)
		if err != nil {
			t.Fatal(err)
		}
		if got, keep := f.Priority(c.of); got != c.want || keep != c.keep {
			t.Errorf("%s %v of %+v: %v, kept %v; want %v, %v", c.name, c.args, c.of, got, keep, c.want, c.keep)
		}
	}
	for _, args := range []map[string]any{{"decay": -1}, {"decay": math.Inf(1)}, {"sigma": -0.5}, {"sigma": math.NaN()}} {
		if _, err := PriorityFuncs.Build("decay_limit_randomization", args); err == nil || !strings.Contains(err.Error(), "at least 0") {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestReplayByPriority(t *testing.T) {
	r := openReplay(t, t.TempDir(), ReplayOptions{Cooldown: new(time.Duration), Memory: 1 << 20})
	deliver(t, r, versioned("a", 1, 2), versioned("b", 4, 2), versioned("c", 4, 1))
	var got []string
	for range 6 {
		got = append(got, takes(t, r, 2))
	}
	// Before each: b 4, c 4, a 1; c 4, b 2, a 1, which cuts b; the rest of b, c 2, a 1, b 0; a 1, b 0,
	// b 0, c 0; b 0, b 0, c 0, a -1; c 0, a -1, b -2, b -2.
	if want := []string{"bb", "cb", "bc", "aa", "bb", "ca"}; !slices.Equal(got, want) {
		t.Errorf("took %v, want %v", got, want)
	}
}

// A full buffer drops the group with the lowest priority, and Put never waits.
func TestReplayEvicts(t *testing.T) {
	r := openReplay(t, t.TempDir(), ReplayOptions{Capacity: 2, Memory: 1 << 20})
	deliver(t, r, versioned("a", 3, 1), versioned("b", 2, 4))
	deliver(t, r, versioned("c", 1, 2), versioned("d", 2, 1)) // c is lower, d takes the place of b
	if got := takes(t, r, 2); got != "ad" {
		t.Errorf("took %s, want ad", got)
	}
	if m := r.last(); m["sample/evicted_count"] != 6 || m["sample/use_count/mean"] != 1 || m["sample/replay_groups"] != 0 {
		t.Errorf("metrics %v, want 4 of b and 2 of c evicted", m)
	}
	if r.bytes != 0 {
		t.Errorf("%d bytes are counted of nothing", r.bytes)
	}
}

func TestReplayCoolsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cooldown := 40 * time.Second
		r := openReplay(t, t.TempDir(), ReplayOptions{Cooldown: &cooldown, Memory: 1 << 20, Priority: &decayLimit{Decay: 2, UseCountLimit: 3}})
		begin := time.Now()
		deliver(t, r, versioned("a", 0, 2))
		for use, want := range []time.Duration{0, 40 * time.Second, 80 * time.Second} {
			if got := takes(t, r, 2); got != "aa" || time.Since(begin) != want {
				t.Errorf("use %d: took %s after %v, want aa after %v", use+1, got, time.Since(begin), want)
			}
			if m := r.last(); m["sample/use_count/min"] != float64(use+1) || m["sample/use_count/max"] != float64(use+1) {
				t.Errorf("use %d: metrics %v", use+1, m)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if exps, err := trinitytest.Take(ctx, r, 1, 0); err == nil {
			t.Errorf("took %d past use_count_limit 3", len(exps))
		}
	})
}

// Take returns a group again as the explorer put it, even if the caller changed the first copy.
func TestReplayGivesGroupsUnchanged(t *testing.T) {
	r := openReplay(t, t.TempDir(), ReplayOptions{Cooldown: new(time.Duration), Memory: 1 << 20})
	deliver(t, r, versioned("a", 0, 1))
	for range 2 {
		exps, err := trinitytest.Take(t.Context(), r, 1, 0)
		if err != nil || exps[0].Advantages != nil || exps[0].Reward.Valid {
			t.Fatalf("took %+v, %v", exps[0], err)
		}
		exps[0].Advantages = []float32{1, 1}
	}
}

// After Close, Take returns the waiting groups once.
func TestReplayIsDrained(t *testing.T) {
	r := openReplay(t, t.TempDir(), ReplayOptions{Cooldown: new(time.Duration)})
	deliver(t, r, versioned("a", 0, 2), versioned("b", 0, 1))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if got := takes(t, r, 2) + takes(t, r, 2) + takes(t, r, 2); got != "aab" {
		t.Errorf("took %s, want aab", got)
	}
}

// Take gives no group that is older than want.Oldest, and none of a delivery that needs an
// unpublished version.
func TestReplayVersions(t *testing.T) {
	r := openReplay(t, t.TempDir(), ReplayOptions{Memory: 1 << 20})
	deliver(t, r, versioned("a", 1, 1), versioned("b", 3, 1))
	later := trinity.Delivery{Groups: []trinity.Group{versioned("c", 2, 1), versioned("d", 9, 1)}, Needs: 5}
	if err := r.Sink("").Put(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	r.expireOld(trinity.Want{Oldest: 3})
	if got := takes(t, r, 4); got != "b" {
		t.Errorf("took %s, want b alone", got)
	}
	taken, err := r.Take(t.Context(), trinity.Want{N: 1, Published: 5, Continues: true})
	if got := tasks(taken.Experiences()); err != nil || got != "d" {
		t.Errorf("took %s, %v; want d", got, err)
	}
	if m := taken.Metrics; m["sample/expired_count"] != 2 {
		t.Errorf("metrics %v, want a and c expired", m)
	}
}

// In lockstep, Take chooses among all groups that explorers put before they pause.
func TestReplayInLockstep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openReplay(t, t.TempDir(), ReplayOptions{Memory: 1 << 20, Lockstep: true})
		deliver(t, r, versioned("a", 1, 1))
		got := make(chan string)
		go func() { got <- takes(t, r, 1) }()
		synctest.Wait()
		deliver(t, r, versioned("b", 2, 1))
		synctest.Wait()
		pause(t, r, 1)
		if tasks := <-got; tasks != "b" {
			t.Errorf("took %s, want b", tasks)
		}
	})
}

// A run that resumes after any step gets the same groups as a run without a kill, with noise,
// evictions, cuts and cooldowns.
func TestReplayResumes(t *testing.T) {
	for _, byRollout := range []bool{false, true} {
		for name, cooldown := range map[string]*time.Duration{"never": nil, "at once": new(time.Duration), "later": ptr(25 * time.Second)} {
			t.Run(fmt.Sprint("by rollout ", byRollout, ", again ", name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := ReplayOptions{
						Capacity: 7, Memory: 3000, Cooldown: cooldown, Seed: 5, ByRollout: byRollout, Lockstep: true,
						Priority: &decayLimit{Decay: 0.2, UseCountLimit: 3, Sigma: 1.5},
					}
					r := openReplay(t, t.TempDir(), o)
					const steps = 12
					var states [steps + 1]trinity.SourceState
					var want [steps]string
					for step := range steps {
						states[step] = stateOf(t, r)
						explore(t, r, int64(step))
						want[step] = trainStep(t, r, int64(step))
					}
					if all := strings.Join(want[:], " "); cooldown != nil && !strings.Contains(all, "2x") {
						t.Errorf("no group was used twice: %s", all)
					}
					for from := range steps {
						again := NewReplay(o, r.log)
						if err := again.Restore(states[from]); err != nil {
							t.Fatal(err)
						}
						for step := from; step < steps; step++ {
							pause(t, again, int64(step)+1)
							if got := trainStep(t, again, int64(step)); got != want[step] {
								t.Fatalf("from step %d: step %d is given %s, want %s", from, step, got, want[step])
							}
						}
					}
				})
			})
		}
	}
}

func ptr[T any](v T) *T { return &v }

// stateOf returns the state as a checkpoint brings it back.
func stateOf(t *testing.T, r *Replay) (read trinity.SourceState) {
	t.Helper()
	s, err := r.State()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// explore puts some groups of a step.
func explore(t *testing.T, r *Replay, step int64) {
	rng := rand.New(rand.NewPCG(1, uint64(step)))
	var groups []trinity.Group
	for task := range 2 {
		g := runs(fmt.Sprintf("%d.%d ", step, task), 1+rng.IntN(3), 1, 1+rng.IntN(2))
		for _, e := range g {
			e.Versions[0] = max(0, step-rng.Int64N(3))
		}
		groups = append(groups, g)
	}
	if err := r.Sink("").Put(t.Context(), trinity.Delivery{Groups: groups, Needs: step}); err != nil {
		t.Fatal(err)
	}
	pause(t, r, step+1)
}

// trainStep takes ten seconds, and returns the tasks of its batch.
func trainStep(t *testing.T, r *Replay, step int64) string {
	taken, err := r.Take(t.Context(), trinity.Want{N: 7, Rollouts: r.ByRollout, Published: step})
	exps := taken.Experiences()
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Second)
	var ids []string
	for _, e := range exps {
		ids = append(ids, e.ID.String())
	}
	m := r.last()
	return fmt.Sprintf("%vx %v evicted: %s", m["sample/use_count/max"], m["sample/evicted_count"], strings.Join(ids, ","))
}

// A state holds places, not experiences. Trim removes the records that no state needs.
func TestReplayTrims(t *testing.T) {
	r := openReplay(t, t.TempDir(), ReplayOptions{Memory: 1 << 30, Capacity: 1})
	big := versioned("a", 0, 1)
	big[0].Prompt = strings.Repeat("x", 65<<20) // a segment of its own
	deliver(t, r, big)
	deliver(t, r, versioned("b", 0, 1))
	s := stateOf(t, r)
	if len(s.Cursor) > 200 || len(s.Pending) > 0 {
		t.Errorf("state %s", s.Cursor)
	}
	if err := r.Trim(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if first := first(r.log); first != 1 {
		t.Errorf("the log begins with record %d, want 1: b has taken the place of a", first)
	}
	if got := takes(t, r, 1); got != "b" {
		t.Errorf("took %s", got)
	}
}

// Trim keeps the records of groups that come back.
func TestReplayTrimKeepsCoolingGroups(t *testing.T) {
	long := time.Hour
	r := openReplay(t, t.TempDir(), ReplayOptions{Cooldown: &long})
	big := versioned("a", 0, 1)
	big[0].Prompt = strings.Repeat("x", 65<<20) // a segment of its own
	deliver(t, r, big)
	takes(t, r, 1)
	deliver(t, r, versioned("b", 0, 1))
	if err := r.Trim(t.Context(), stateOf(t, r)); err != nil {
		t.Fatal(err)
	}
	if first := first(r.log); first != 0 {
		t.Errorf("the log begins with record %d, want 0", first)
	}
}

func TestReplayRefusesWrongStates(t *testing.T) {
	r := openReplay(t, t.TempDir(), ReplayOptions{})
	deliver(t, r, versioned("a", 0, 1))
	for cursor, words := range map[string]string{`{"next": 3}`: "continues with record 3", `{"next": "x"}`: "replay_buffer.enable",
		`{"record":1,"index":0}`: "was storage_type or replay_buffer.enable changed"} {
		if err := r.Restore(trinity.SourceState{Cursor: json.RawMessage(cursor)}); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", cursor, err)
		}
	}
	if err := r.Restore(trinity.SourceState{Cursor: json.RawMessage(`{"next": 1, "waiting": [[0, 1, 3, 2, 0, 0, 0]]}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := trinitytest.Take(t.Context(), r, 1, 0); err == nil || !strings.Contains(err.Error(), "record 0") {
		t.Errorf("a group that is not in its record: %v", err)
	}
}

func TestNoiseDependsOnSeedsAlone(t *testing.T) {
	var all []float64
	sum, squares := 0.0, 0.0
	for seed := range int64(10) {
		for record := range int64(10) {
			for uses := range 10 {
				v := (&item{record: record, uses: uses}).noise(seed)
				if again := (&item{record: record, uses: uses}).noise(seed); again != v || slices.Contains(all, v) {
					t.Fatalf("noise %v, then %v", v, again)
				}
				all, sum, squares = append(all, v), sum+v, squares+v*v
			}
		}
	}
	if mean, variance := sum/1000, squares/1000; math.Abs(mean) > 0.1 || math.Abs(variance-1) > 0.15 {
		t.Errorf("mean %v, variance %v of a thousand draws", mean, variance)
	}
}
