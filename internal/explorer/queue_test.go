package explorer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/weights"
)

// file is the file of a queue of tasks.
type file string

func newFile(t *testing.T) file { return file(filepath.Join(t.TempDir(), "tasks.jsonl")) }

func (f file) add(t *testing.T, text string) {
	out, err := os.OpenFile(string(f), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = out.WriteString(text)
		err = errors.Join(err, out.Close())
	}
	if err != nil {
		t.Error(err)
	}
}

// taskset returns the k-th of n shares of the queue.
func (f file) taskset(t *testing.T, k, n int) *Taskset {
	t.Helper()
	queue := dataset.NewQueue(string(f), time.Hour, func(string) {})
	if err := queue.Extend(); err != nil {
		t.Fatal(err)
	}
	share := ShareOf(queue, k, n)
	ts := newTaskset(0, 1, onePull{})
	ts.Data, ts.Selector, ts.Template.Taskset = share, NewArrivals(queue, share), "live"
	return ts
}

// queueing returns an explorer of the k-th of n shares of the queue, with two tasks per step.
func (f file) queueing(t *testing.T, q *buffer.Queue, k, n int) (*Explorer, *telling) {
	t.Helper()
	e := newExplorer(t, q, 100)
	said := &telling{shares: map[int64]float64{}}
	e.opts.Agenda, e.opts.Recorder = NewAgenda(mix(t, f.taskset(t, k, n)), nil, 2), said
	e.opts.Pace = Pace{Style: "fully_async", Interval: 1, MaxStaleness: math.Inf(1), PerStep: 2, PerBatch: 2}
	return e, said
}

// A run takes the tasks of a queue as they come, each once. It ends with the queue: after a last,
// smaller step, or after none.
func TestTasksOfAQueue(t *testing.T) {
	for _, c := range []struct {
		rows int
		want string
		last int
	}{
		{5, "1:live/0 1:live/1 2:live/2 2:live/3 3:live/4 ", 3},
		{4, "1:live/0 1:live/1 2:live/2 2:live/3 ", 2},
		{0, "", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFile(t)
			go func() {
				for i := range c.rows {
					time.Sleep(time.Minute)
					f.add(t, fmt.Sprintf("{\"i\": %d}\n", i))
				}
				time.Sleep(time.Minute)
				f.add(t, "null\n")
			}()
			q := buffer.NewQueue(100, 0, nil)
			e, said := f.queueing(t, q, 1, 1)
			if err := e.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if state, _ := q.State(); tasksOf(state.Pending...) != c.want {
				t.Errorf("%d rows: explored %s, want %s", c.rows, tasksOf(state.Pending...), c.want)
			}
			end := fmt.Sprintf("the queue of taskset live has ended after %d rows, so explore step %d was the last one", c.rows, c.last)
			if c.rows == 0 {
				end = "the queue of taskset live has ended after 0 rows, so there is nothing to explore"
			}
			if len(said.lines) == 0 || said.lines[len(said.lines)-1] != end {
				t.Errorf("people read %q, want %s", said.lines, end)
			}
			if _, err := q.Take(t.Context(), trinity.Want{N: 100}); c.rows > 0 && err != nil {
				t.Errorf("the trainer waits for more: %v", err)
			}
		})
	}
}

// A step is delivered, with its state, while the next one waits for its tasks.
func TestDeliveryWhileAStepWaitsForTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFile(t)
		f.add(t, "{}\n{}\n")
		q := buffer.NewQueue(100, 0, nil)
		e, _ := f.queueing(t, q, 1, 1)
		e.opts.StepsInFlight = 2
		deliveries := 0
		e.opts.Buffer = &mortal{q.Sink(""), 10, func(trinity.Delivery) {
			if deliveries++; deliveries == 1 {
				f.add(t, "{}\nnull\n")
			}
		}}
		if err := e.Run(t.Context()); err != nil || deliveries != 2 {
			t.Errorf("%d deliveries, %v", deliveries, err)
		}
	})
}

// A step whose tasks came late samples with the version that is the newest then.
func TestLateTasksGetTheNewestVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFile(t)
		e, _ := f.queueing(t, buffer.NewQueue(100, 0, nil), 1, 1)
		version := -1.0
		e.opts.Recorder = logging(func(_ int64, m trinity.Metrics) error {
			version = max(version, m["rollout/model_version"])
			return nil
		})
		memory := weights.NewMemory(&handing{}, 0, weights.WhenAsked, time.Hour)
		e.opts.Weights, e.opts.Pace.Style = memory, "trainer_driven"
		go func() {
			time.Sleep(time.Minute)
			if err := memory.Publish(t.Context(), 3); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute)
			f.add(t, "{}\n{}\nnull\n")
		}()
		if err := e.Run(t.Context()); err != nil || version != 3 {
			t.Errorf("sampled with version %v, %v; want 3", version, err)
		}
	})
}

func TestAStopEndsTheWaitForTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := newFile(t).queueing(t, buffer.NewQueue(100, 0, nil), 1, 1)
		stopped := errors.New("stopped")
		ctx, stop := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { stop(stopped) })
		begin := time.Now()
		if err := e.Run(ctx); !errors.Is(err, stopped) || time.Since(begin) > 61*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	})
}

// A run that is killed again and again takes each task once, also those that came meanwhile, and the
// steps in flight have the tasks that they began with.
func TestResumedRunsTakeEachTaskOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFile(t)
		q := buffer.NewQueue(1000, 0, nil)
		p := &promises{t: t, tasks: map[int64]string{}}
		const rows = 31
		go func() {
			for i := range rows {
				time.Sleep(time.Minute)
				f.add(t, fmt.Sprintf("{\"i\": %d}\n", i))
			}
			f.add(t, "null\n")
		}()
		for i, inFlight := range []int{3, 1, 2, 3, 2, 3, 3} {
			time.Sleep(time.Duration(i) * time.Minute) // rows come meanwhile
			e, _ := f.queueing(t, q, 1, 1)
			e.opts.StepsInFlight = inFlight
			live(t, e, []int{2, 1, 3, 1, 2, 1, 100}[i], p.see)
		}
		state, _ := q.State()
		var want strings.Builder
		for i := range rows {
			fmt.Fprintf(&want, "%d:live/%d ", i/2+1, i)
		}
		if got := tasksOf(state.Pending...); got != want.String() || p.widest == 0 {
			t.Errorf("explored %s, with at most %d steps in flight behind a delivery", got, p.widest)
		}
	})
}

// The shares of several explorers hold each task of a queue once.
func TestSharesOfAQueue(t *testing.T) {
	f := newFile(t)
	for i := range 8 {
		f.add(t, fmt.Sprintf("{\"i\": %d}\n", i))
	}
	f.add(t, "null\n")
	for k, want := range []string{"1:live/0 1:live/3 2:live/6 ", "1:live/1 1:live/4 2:live/7 ", "1:live/2 1:live/5 "} {
		q := buffer.NewQueue(100, 0, nil)
		e, _ := f.queueing(t, q, k+1, 3)
		if err := e.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if state, _ := q.State(); tasksOf(state.Pending...) != want {
			t.Errorf("share %d explored %s, want %s", k+1, tasksOf(state.Pending...), want)
		}
	}
}

// Tasks of a queue may be packed. The last pack is smaller.
func TestPacksOfAQueue(t *testing.T) {
	f := newFile(t)
	f.add(t, strings.Repeat("{}\n", 7)+"null\n")
	ts := f.taskset(t, 1, 1)
	ts.Packing.Size = 2
	a := NewAgenda(mix(t, ts), nil, 4)
	var got []string
	for step := int64(1); ; step++ {
		jobs, err := a.jobs(t.Context(), step)
		if errors.Is(err, errQueueEnded) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			got = append(got, fmt.Sprintf("%d:%s*%d", step, j.ID, len(j.Pack)))
		}
	}
	if want := []string{"1:live/0*2", "1:live/2*2", "2:live/4*2", "2:live/6*1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A run that ends with its queue evaluates after its last step, as any run does.
func TestEvaluationAtTheEndOfAQueue(t *testing.T) {
	f := newFile(t)
	f.add(t, "{}\n{}\n{}\nnull\n")
	for _, c := range []struct {
		interval int64
		parallel bool
		want     string
	}{{5, false, "[2]"}, {2, false, "[2]"}, {1, false, "[1 2]"}, {0, false, "[]"}, {5, true, "[2]"}, {2, true, "[2]"}, {1, true, "[1 2]"}} {
		q := buffer.NewQueue(100, 0, nil)
		e, _ := f.queueing(t, q, 1, 1)
		var mu sync.Mutex
		var evaluated []int64
		e.opts.EvalInterval, e.opts.EvalParallel = c.interval, c.parallel
		e.opts.EvalTasksets[0].Template.Taskset = "eval"
		e.opts.Recorder = logging(func(step int64, m trinity.Metrics) error {
			mu.Lock()
			defer mu.Unlock()
			if _, ok := m["eval/eval/accuracy/mean@4"]; ok {
				evaluated = append(evaluated, step)
			}
			return nil
		})
		if err := e.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(evaluated); got != c.want {
			t.Errorf("%+v: evaluated after %s", c, got)
		}
		if _, state, _ := q.Sink("").Resume(t.Context()); strings.Contains(string(state), "evaluating") {
			t.Errorf("%+v: the state after the end owes an evaluation: %s", c, state)
		}
	}
}

// A run does not resume if the tasks that it took are gone or are others.
func TestChangedTasksOfAQueue(t *testing.T) {
	f := newFile(t)
	f.add(t, "{\"a\": 1}\n{\"a\": 2}\n{\"a\": 3}\n")
	a := NewAgenda(mix(t, f.taskset(t, 1, 1)), nil, 2)
	if _, err := a.jobs(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	state, err := a.stateAfter(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"{\"a\": 1}\n{\"a\": 2}\n":                         "",
		"{\"a\": 1}\n{\"a\": 2}\n{\"b\": 3}\n{\"c\": 4}\n": "",
		"{\"a\": 1}\n{\"a\": 2}":                           "tasks.jsonl: it has 1 rows, and the run has taken 2",
		"{\"a\": 1}\n{\"a\": 9}\n{\"a\": 3}\n":             "tasks.jsonl: its first 2 rows are no longer those that the run has taken",
	} {
		if err := os.WriteFile(string(f), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		err := NewAgenda(mix(t, f.taskset(t, 1, 1)), nil, 2).Restore(state)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	other := NewAgenda(mix(t, f.taskset(t, 1, 1)), nil, 2)
	forged := strings.Replace(string(state), `"taken":2`, `"taken":-2`, 1)
	if err := other.Restore(json.RawMessage(forged)); err == nil {
		t.Errorf("%s was accepted", forged)
	}
}

// A resumed run has the tasks of the steps in flight, also if the queue has no others.
func TestStepsInFlightOfAnEndedQueue(t *testing.T) {
	f := newFile(t)
	f.add(t, "{}\n{}\n{}\nnull\n")
	a := NewAgenda(mix(t, f.taskset(t, 1, 1)), nil, 2)
	for step := range int64(2) {
		if _, err := a.jobs(t.Context(), step+1); err != nil {
			t.Fatal(err)
		}
	}
	state, err := a.stateAfter(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	resumed := NewAgenda(mix(t, f.taskset(t, 1, 1)), nil, 2)
	if err := resumed.Restore(state); err != nil {
		t.Fatal(err)
	}
	jobs, err := resumed.jobs(t.Context(), 2)
	if err != nil || len(jobs) != 1 || jobs[0].ID != "live/2" {
		t.Errorf("step 2 has %v, %v", jobs, err)
	}
	if _, err := resumed.jobs(t.Context(), 3); !errors.Is(err, errQueueEnded) {
		t.Errorf("step 3: %v", err)
	}
}
