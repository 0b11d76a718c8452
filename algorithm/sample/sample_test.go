package sample

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

// Every registered strategy passes the conformance suite.
func TestStrategies(t *testing.T) {
	for _, name := range registry.SampleStrategies.Names() {
		t.Run(name, func(t *testing.T) {
			trinitytest.SampleStrategy(t, func() trinity.SampleStrategy {
				s, err := registry.SampleStrategies.Build(name)
				if err != nil {
					t.Fatal(err)
				}
				return s
			})
		})
	}
}

// A queue behind a strategy that drops nothing passes the conformance suite of buffers.
func TestBufferSuite(t *testing.T) {
	for name, s := range map[string]trinity.SampleStrategy{
		"default": &Default{}, "staleness_control": &StalenessControl{MaxStaleness: math.Inf(1)},
	} {
		t.Run(name, func(t *testing.T) {
			trinitytest.Buffer(t, trinitytest.BufferOptions{Capacity: 16}, func(t *testing.T, dir string) trinitytest.Store {
				log, err := buffer.OpenLog(dir)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { log.Close() })
				q := buffer.NewQueue(16, 1<<20, log)
				return trinitytest.Store{Explorer: q.Sink(""), Second: q.Sink("second"), Trainer: open(t, s, q, nil)}
			})
		})
	}
}

func open(t *testing.T, s trinity.SampleStrategy, usual trinity.Source, auxiliary map[string]trinity.Source) trinity.Source {
	t.Helper()
	source, err := s.Open(usual, auxiliary)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func pause(t *testing.T, q *buffer.Queue, until int64) {
	t.Helper()
	if err := q.Sink("").Pause(t.Context(), until); err != nil {
		t.Fatal(err)
	}
}

// put puts a group with the given oldest versions; its task has the number of the step.
func put(t *testing.T, q *buffer.Queue, step int64, versions ...int64) {
	t.Helper()
	var g trinity.Group
	for run, v := range versions {
		g = append(g, &trinity.Experience{
			ID: trinity.ExperienceID{Step: step, Task: fmt.Sprint("t/", step), Run: run}, Tokens: []int32{1, 2},
			Mask: []bool{false, true}, Versions: [2]int64{v, v + 9},
		})
	}
	if err := q.Sink("").Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{g}, Cursor: []byte(`"explorer"`)}); err != nil {
		t.Fatal(err)
	}
}

// ids returns the ids of experiences as task/run.
func ids(exps []*trinity.Experience) string {
	var all []string
	for _, e := range exps {
		all = append(all, fmt.Sprintf("%s/%d", strings.TrimPrefix(e.ID.Task, "t/"), e.ID.Run))
	}
	return strings.Join(all, " ")
}

func take(t *testing.T, s trinity.Source, n int, published int64) (string, trinity.Metrics) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // a wait in vain fails the test
	defer cancel()
	taken, err := s.Take(ctx, trinity.Want{N: n, Published: published})
	if err != nil {
		t.Fatal(err)
	}
	m := maps.Clone(taken.Metrics)
	if m["time/read_experience"] < 0 {
		t.Error("time/read_experience is negative")
	}
	delete(m, "time/read_experience")
	return ids(taken.Experiences()), m
}

func TestMetricsOfABatch(t *testing.T) {
	q := buffer.NewQueue(100, 0, nil)
	put(t, q, 1, 0, 2, 1)
	put(t, q, 2, 5)
	s := open(t, &Default{}, q, nil)
	got, m := take(t, s, 4, 0)
	want := trinity.Metrics{
		"sample/task_count": 2, "sample/model_version/mean": 2, "sample/model_version/max": 5, "sample/model_version/min": 0,
	}
	if got != "1/0 1/1 1/2 2/0" || !maps.Equal(m, want) {
		t.Errorf("%s with %v, want %v", got, m, want)
	}
	pause(t, q, 1)
	if got, m := take(t, s, 4, 0); got != "" || !maps.Equal(m, trinity.Metrics{"sample/task_count": 0}) {
		t.Errorf("an empty batch has %q, %v", got, m)
	}
}

// At step t the oldest allowed version is t − max_staleness.
func TestStalenessRule(t *testing.T) {
	for _, c := range []struct {
		limit float64
		step  int64
		kept  string // of the versions 0 … 5
	}{
		{1, 1, "012345"}, {2, 1, "012345"},
		{1, 2, "12345"}, {2, 2, "012345"},
		{1, 5, "45"}, {2, 5, "345"}, {3.5, 5, "2345"}, {5, 5, "012345"},
		{math.Inf(1), 1000, "012345"},
	} {
		q := buffer.NewQueue(100, 0, nil)
		s := open(t, &StalenessControl{MaxStaleness: c.limit}, q, nil)
		s.(*fresh).batches = c.step - 1
		put(t, q, 1, 0, 1, 2, 3, 4, 5)
		pause(t, q, 1)
		got, m := take(t, s, 100, 0)
		want := strings.Join(slices.Collect(func(yield func(string) bool) {
			for _, v := range c.kept {
				yield("1/" + string(v))
			}
		}), " ")
		if got != want || m["sample/stale_count"] != float64(6-len(c.kept)) {
			t.Errorf("max_staleness %v at step %d keeps %s and drops %v, want %s", c.limit, c.step, got, m["sample/stale_count"], want)
		}
	}
}

// Other experiences replace the dropped ones; a batch is short only if the buffer has no more.
func TestStalenessRefills(t *testing.T) {
	q := buffer.NewQueue(100, 0, nil)
	s := open(t, &StalenessControl{MaxStaleness: 1}, q, nil)
	put(t, q, 1, 0, 0, 0, 0)
	put(t, q, 2, 0, 0)
	put(t, q, 3, 1, 1, 0, 1)
	if got, m := take(t, s, 4, 0); got != "1/0 1/1 1/2 1/3" || m["sample/stale_count"] != 0 {
		t.Errorf("step 1: %s, %v", got, m)
	}
	waiting := make(chan trinity.Taken)
	go func() {
		taken, _ := s.Take(t.Context(), trinity.Want{N: 4, Published: 1})
		waiting <- taken
	}()
	put(t, q, 4, 1, 1)
	taken := <-waiting
	if got := ids(taken.Experiences()); got != "3/0 3/1 3/3 4/0" {
		t.Errorf("step 2: %s", got)
	}
	if m := taken.Metrics; m["sample/stale_count"] != 3 || m["sample/task_count"] != 2 || m["sample/model_version/mean"] != 1 {
		t.Errorf("step 2: %v", m)
	}
	pause(t, q, 3)
	if got, m := take(t, s, 4, 2); got != "" || m["sample/stale_count"] != 1 { // the explorer waits for the version of this step
		t.Errorf("step 3: %s, %v", got, m)
	}
	put(t, q, 5, 3, 2)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if got, m := take(t, s, 4, 3); got != "5/0" || m["sample/stale_count"] != 1 {
		t.Errorf("step 4: %s, %v", got, m)
	}
	if _, err := trinitytest.Take(t.Context(), s, 4, 3); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// If the trainer asks for rollouts, the strategies count rollouts: whole rollouts, with all their
// turns, replace the dropped ones.
func TestRolloutsOfSeveralTurns(t *testing.T) {
	for _, c := range []struct {
		strategy trinity.SampleStrategy
		n        int
		want     string
	}{
		{&Default{}, 3, "1/0 1/0 1/1 1/1 1/2 1/2"},
		{&StalenessControl{MaxStaleness: 1}, 3, "1/0 1/0 1/2 1/2 1/3 1/3"},
		{&Mix{ExpertDataRatio: 0.5, SFTDatasetName: "d"}, 4, "1/0 1/0 1/1 1/1 d/row/0 d/row/1"},
	} {
		q := buffer.NewQueue(100, 0, nil)
		var g trinity.Group
		for run, version := range []int64{1, 0, 1, 1, 1} {
			for turn := range 2 {
				g = append(g, &trinity.Experience{
					ID: trinity.ExperienceID{Step: 1, Task: "t/1", Run: run, Turn: turn}, Versions: [2]int64{version, version},
				})
			}
		}
		if err := q.Sink("").Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{g}}); err != nil {
			t.Fatal(err)
		}
		s := open(t, c.strategy, q, map[string]trinity.Source{"d": &trinitytest.Numbered{Task: "row", Total: 100}})
		if f, ok := s.(*fresh); ok {
			f.batches = 1 // step 2 wants version 1
		}
		taken, err := s.Take(t.Context(), trinity.Want{N: c.n, Rollouts: true})
		if got := ids(taken.Experiences()); err != nil || got != c.want {
			t.Errorf("%T gives %s, %v; want %s", c.strategy, got, err, c.want)
		}
	}
}

// A cancelled wait loses no experience, neither for the same run nor for a resumed one.
func TestCancelledWaitLosesNothing(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, c := range []struct {
		name     string
		strategy trinity.SampleStrategy
		first    int     // rollouts of the batch before
		versions []int64 // of the rollouts of step 2
		want     string
		metric   string
		value    float64
	}{
		{"staleness_control", &StalenessControl{MaxStaleness: 1}, 5, []int64{1, 0, 1, 0, 1}, "2/0 2/2 2/4 3/0 3/2", "sample/stale_count", 3},
		{"mix", &Mix{ExpertDataRatio: 0.2, SFTDatasetName: "d"}, 4, []int64{1, 1, 1, 1}, "2/0 2/1 2/2 2/3 d/row/1", "sample/expert_count", 1},
	} {
		for _, resumed := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, " resumed ", resumed), func(t *testing.T) {
				start := func() (*buffer.Queue, trinity.Source) {
					q := buffer.NewQueue(100, 0, nil)
					return q, open(t, c.strategy, q, map[string]trinity.Source{"d": &trinitytest.Numbered{Task: "row", Total: 100}})
				}
				q, s := start()
				put(t, q, 1, make([]int64, c.first)...)
				take(t, s, 5, 0)
				put(t, q, 2, c.versions...)
				if exps, err := trinitytest.Take(stopped, s, 5, 1); !errors.Is(err, context.Canceled) {
					t.Fatalf("%d experiences, %v", len(exps), err)
				}
				if resumed {
					state, err := s.State()
					if err != nil {
						t.Fatal(err)
					}
					q, s = start()
					if err := s.Restore(state); err != nil {
						t.Fatal(err)
					}
				}
				put(t, q, 3, 1, 0, 1)
				if got, m := take(t, s, 5, 1); got != c.want || m[c.metric] != c.value {
					t.Errorf("%s, %v; want %s", got, m, c.want)
				}
			})
		}
	}
}

func TestMix(t *testing.T) {
	for _, c := range []struct {
		ratio    float64
		batch    int
		rollouts int // that there are
		want     string
	}{
		{0.5, 4, 4, "1/0 1/1 d/row/0 d/row/1"},
		{0.2, 5, 9, "1/0 1/1 1/2 1/3 d/row/0"},
		{0.2, 4, 9, "1/0 1/1 1/2 d/row/0"},          // ⌈0.8⌉
		{0.1, 30, 0, ""},                            //
		{0.5, 8, 2, "1/0 1/1 d/row/0 d/row/1"},      // of 4 rollouts there are 2: the ratio stays
		{0.25, 8, 1, "1/0 d/row/0"},                 // ⌈2·1/6⌉
		{0.75, 4, 4, "1/0 d/row/0 d/row/1 d/row/2"}, //
		{0.75, 8, 1, "1/0 d/row/0 d/row/1 d/row/2"}, // there is 1 rollout for 2
		{0.2, 10, 8, "1/0 1/1 1/2 1/3 1/4 1/5 1/6 1/7 d/row/0 d/row/1"},
	} {
		q := buffer.NewQueue(100, 0, nil)
		auxiliary := map[string]trinity.Source{"d": &trinitytest.Numbered{Task: "row", Total: 100}, "e": nil}
		s := open(t, &Mix{ExpertDataRatio: c.ratio, SFTDatasetName: "d"}, q, auxiliary)
		put(t, q, 1, make([]int64, c.rollouts)...)
		pause(t, q, 1)
		taken, err := s.Take(t.Context(), trinity.Want{N: c.batch})
		exps := taken.Experiences()
		if err != nil || ids(exps) != c.want {
			t.Errorf("%v of %d: %s, %v; want %s", c.ratio, c.batch, ids(exps), err, c.want)
		}
		for _, e := range exps {
			if e.IsExpert != strings.HasPrefix(e.ID.Task, "d/") || e.IsExpert && (e.Logprobs != nil || e.Reward.Valid) {
				t.Errorf("%s: %+v", e.ID, e)
			}
		}
		m := taken.Metrics
		experts := float64(strings.Count(c.want, "row"))
		if m["sample/expert_count"] != experts || m["sample/task_count"] > 1 || m["sample/model_version/max"] > 0 {
			t.Errorf("%v of %d: %v; demonstrations must not count as rollouts", c.ratio, c.batch, m)
		}
	}
}

// ⌈0.07·100⌉ is 7, although 0.07·100 is a little more in floating point.
func TestMixRoundsUpExactly(t *testing.T) {
	for _, c := range []struct {
		ratio   float64
		n, want int
	}{{0.07, 100, 93}, {0.2, 320, 256}, {0.11, 864, 768}, {0.5, 7, 3}, {0.5, 1, 0}, {0.29, 100, 71}} {
		if got := (&Mix{ExpertDataRatio: c.ratio}).Rollouts(c.n); got != c.want {
			t.Errorf("%v of %d leaves %d rollouts, want %d", c.ratio, c.n, got, c.want)
		}
	}
}

// Training ends with the demonstrations. The rollouts of the batch without demonstrations stay
// pending.
func TestMixEndsWithTheDemonstrations(t *testing.T) {
	q := buffer.NewQueue(100, 0, nil)
	auxiliary := map[string]trinity.Source{"d": &trinitytest.Numbered{Task: "row", Total: 3}}
	s := open(t, &Mix{ExpertDataRatio: 0.5, SFTDatasetName: "d"}, q, auxiliary)
	put(t, q, 1, make([]int64, 9)...)
	for _, want := range []string{"1/0 1/1 d/row/0 d/row/1", "1/2 1/3 d/row/2"} {
		if got, _ := take(t, s, 4, 0); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for range 2 {
		if _, err := trinitytest.Take(t.Context(), s, 4, 0); !errors.Is(err, io.EOF) {
			t.Errorf("%v, want io.EOF", err)
		}
	}
	if state, err := s.State(); err != nil || ids(slices.Concat(state.Pending...)) != "1/4 1/5 1/6 1/7 1/8" {
		t.Errorf("pending are %s, %v", ids(slices.Concat(state.Pending...)), err)
	}
}

func TestInvalidArguments(t *testing.T) {
	for _, c := range []struct {
		name, words string
		args        map[string]any
	}{
		{"staleness_control", "at least 1", map[string]any{"max_staleness": 0}},
		{"staleness_control", "at least 1", map[string]any{"max_staleness": math.NaN()}},
		{"mix", "more than 0 and less than 1", map[string]any{"expert_data_ratio": 1.0}},
		{"mix", "more than 0 and less than 1", map[string]any{"expert_data_ratio": 0}},
		{"mix", "sft_dataset_name: name", map[string]any{"sft_dataset_name": ""}},
		{"mix", "sft_dataset_name", map[string]any{"sft_dataset": "d"}},
	} {
		_, err := registry.SampleStrategies.Build(c.name, c.args)
		if err == nil || !strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %v: %v", c.name, c.args, err)
		}
	}
	if _, err := registry.SampleStrategies.Build("staleness_control", map[string]any{"max_staleness": math.Inf(1)}); err != nil {
		t.Error(err)
	}
	auxiliary := map[string]trinity.Source{"d": &trinitytest.Numbered{}}
	s := open(t, &Mix{ExpertDataRatio: 0.9, SFTDatasetName: "d"}, buffer.NewQueue(1, 0, nil), auxiliary)
	if _, err := trinitytest.Take(t.Context(), s, 5, 0); err == nil || !strings.Contains(err.Error(), "leaves a batch of 5 no rollout") {
		t.Error(err)
	}
}

// A run may resume with another strategy.
func TestResumeWithAnotherStrategy(t *testing.T) {
	q := buffer.NewQueue(100, 0, nil)
	data := map[string]trinity.Source{"d": &trinitytest.Numbered{Task: "row", Total: -1}}
	mixed := open(t, &Mix{ExpertDataRatio: 0.5, SFTDatasetName: "d"}, q, data)
	put(t, q, 1, 0, 0, 0, 0)
	take(t, mixed, 4, 0)
	state, err := mixed.State()
	if err != nil {
		t.Fatal(err)
	}
	plain := open(t, &Default{}, buffer.NewQueue(100, 0, nil), nil)
	if err := plain.Restore(state); err != nil {
		t.Fatal(err)
	}
	if got, _ := take(t, plain, 2, 0); got != "1/2 1/3" {
		t.Error(got)
	}
	if state, err = plain.State(); err != nil {
		t.Fatal(err)
	}
	if err := mixed.Restore(state); err != nil {
		t.Fatal(err)
	}
	put(t, q, 2, 0, 0)
	// The state of plain lacks the demonstrations, so their source, which is the same object,
	// continues.
	if got, _ := take(t, mixed, 4, 0); got != "2/0 2/1 d/row/2 d/row/3" {
		t.Error(got)
	}
}

// The number and the lengths of the dropped experiences survive a checkpoint within a batch.
func TestDroppedLengths(t *testing.T) {
	var d dropped
	m := trinity.Metrics{}
	d.describe(m)
	if len(m) != 1 || m["sample/stale_count"] != 0 {
		t.Errorf("nothing dropped: %v", m)
	}
	for _, n := range []int{5, 2, 11} {
		d.add(&trinity.Experience{Tokens: make([]int32, 3+n), PromptLen: 3})
	}
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var read dropped
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	read.describe(m)
	const length = "sample/stale_response_length/"
	want := trinity.Metrics{"sample/stale_count": 3, length + "mean": 6, length + "max": 11, length + "min": 2}
	if !maps.Equal(m, want) {
		t.Errorf("%v, want %v", m, want)
	}
}
