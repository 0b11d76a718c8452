package run_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/trinitytest"
)

// evaluatedOnce fails unless the run has one record of an evaluation for each of the steps 0, 2 and 4,
// and at most one of each later step, whose evaluation a killed run may owe when the trainer ends.
func (p *project) evaluatedOnce(t *testing.T) {
	t.Helper()
	var got []int64
	for _, r := range metrics(t, filepath.Join(p.job(), "monitor", "metrics.jsonl")) {
		if _, ok := r.Metrics["eval/few/finished_task_count"]; ok {
			got = append(got, r.Step)
		}
	}
	slices.Sort(got)
	if len(got) < 3 || !slices.Equal(got, []int64{0, 2, 4, 6, 8}[:len(got)]) {
		t.Errorf("evaluations of steps %v are recorded, want one each of 0, 2, 4 and perhaps later ones", got)
	}
}

// If explorer and trainer do not wait for each other, a run that is killed again and again still
// trains on every rollout, and on none twice.
func TestAsynchronousRunsLoseNothing(t *testing.T) {
	for _, style := range []string{
		"explorer_driven", "trainer_driven", "fully_async", "fully_async in a database", "fully_async beside evaluations",
	} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, tiny, rl)
			style, database := strings.CutSuffix(style, " in a database")
			override := []string{"synchronizer.sync_style=" + style, "synchronizer.explorer_sync_interval=2", "explorer.eval_interval=100"}
			if database {
				override = append(override, inDatabase...)
			}
			style, evaluates := strings.CutSuffix(style, " beside evaluations")
			if evaluates {
				override = append(override, "synchronizer.sync_style="+style, "explorer.eval_interval=2", "explorer.eval_parallel=true")
			}
			rng := rand.New(rand.NewPCG(uint64(len(style)), 2))
			kills := 0
			if p.killedAt(t, "trainer.updated=kill@2", override...) { // whatever the machine does meanwhile
				kills++
			}
			for range 5 {
				begun := p.trains(t)
				late := time.Duration(rng.Float64() * float64(60*time.Millisecond))
				when := (func() bool)(nil)
				if p.start(t, nil, override...).signalWhen(t, os.Kill, func() bool {
					if when == nil && begun() {
						when = after(late)
					}
					return when != nil && when()
				}) {
					kills++
				}
			}
			p.start(t, nil, override...).finish(t)
			if kills == 0 {
				t.Error("the run was never killed")
			}
			t.Logf("%d kills", kills)

			delivered := p.delivered
			if database {
				delivered = p.inTable
			}
			const rollouts = 8 * 3 * 4
			seen := map[trinity.ExperienceID]bool{}
			for _, e := range delivered(t, trinity.SourceState{}) {
				if seen[e.ID] {
					t.Errorf("%s was explored twice", e.ID)
				}
				seen[e.ID] = true
			}
			if len(seen) != rollouts {
				t.Errorf("%d rollouts were delivered, want %d", len(seen), rollouts)
			}
			if evaluates {
				p.evaluatedOnce(t)
			}
			if left := delivered(t, p.position(t, 8)); len(left) != 0 {
				t.Errorf("after the last of 8 steps, of 12 rollouts each, %d are left", len(left))
			}
		})
	}
}

// delivered returns the experiences that the run's buffer gives from a state on.
func (p project) delivered(t *testing.T, from trinity.SourceState) []*trinity.Experience {
	t.Helper()
	log, err := buffer.OpenLog(p.logDir())
	if err != nil {
		t.Fatal(err)
	}
	q := buffer.NewQueue(1, 1<<30, log)
	if err := q.Restore(from); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"explorer", "left", "right"} { // every explorer of these tests, so that Take does not wait
		if err := q.Sink(name).Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	exps, err := trinitytest.Take(t.Context(), q, 1<<20, 1<<20)
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	return exps
}

// inTable returns the experiences that the run's database has after a state.
func (p project) inTable(t *testing.T, from trinity.SourceState) []*trinity.Experience {
	t.Helper()
	var at struct{ Record, Index int64 }
	if len(from.Cursor) > 0 {
		if err := json.Unmarshal(from.Cursor, &at); err != nil {
			t.Fatal(err)
		}
	}
	db, err := sql.Open("sqlite", p.database())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const query = "SELECT e.step, e.task, e.run, e.turn FROM trinity_experiences e JOIN trinity_deliveries d ON d.buffer = e.buffer " +
		"AND d.explorer = e.explorer AND " +
		"d.delivery = e.delivery AND e.number >= d.first WHERE d.record > ? OR d.record = ? AND e.number >= d.first + ?"
	rows, err := db.Query(query, at.Record, at.Record, at.Index)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var exps []*trinity.Experience
	for rows.Next() {
		e := new(trinity.Experience)
		if err := rows.Scan(&e.ID.Step, &e.ID.Task, &e.ID.Run, &e.ID.Turn); err != nil {
			t.Fatal(err)
		}
		exps = append(exps, e)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return exps
}

// position returns the state of the buffer from which the checkpoint of a step resumes.
func (p project) position(t *testing.T, step int64) trinity.SourceState {
	t.Helper()
	var state struct {
		Cursor struct {
			Usual json.RawMessage `json:"usual"`
		} `json:"cursor"`
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(p.job(), fmt.Sprint("global_step_", step), "run.json"))), &state); err != nil {
		t.Fatal(err)
	}
	return trinity.SourceState{Cursor: state.Cursor.Usual}
}

// The explorer does not begin rollouts that would be too old when the trainer reaches them, so the
// trainer drops none.
func TestStalenessPacesTheExplorer(t *testing.T) {
	for _, style := range []string{"explorer_driven", "trainer_driven", "fully_async"} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, tiny, rl)
			_, err := p.run(t, "synchronizer.sync_style="+style, "algorithm.sample_strategy=staleness_control",
				"algorithm.sample_strategy_args.max_staleness=2", "explorer.eval_interval=100")
			if err != nil {
				t.Fatal(err)
			}
			steps := 0
			for _, e := range metrics(t, filepath.Join(p.job(), "monitor", "metrics.jsonl")) {
				if dropped, ok := e.Metrics["sample/stale_count"]; ok {
					steps++
					if dropped != 0.0 || e.Metrics["sample/task_count"] != 3.0 {
						t.Errorf("step %d: %v rollouts dropped, of %v tasks; want none, of 3", e.Step, dropped, e.Metrics["sample/task_count"])
					}
				}
			}
			if steps != 8 {
				t.Errorf("%d steps were trained, want 8", steps)
			}
		})
	}
}
