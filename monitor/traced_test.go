package monitor

import (
	"database/sql"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/database"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// train writes train steps of some rollouts into the trace beside the monitor directory dir.
func train(t *testing.T, dir string, rollouts int, steps ...int64) {
	t.Helper()
	w, err := trace.New(trace.Options{
		Dir: filepath.Join(filepath.Dir(dir), rundir.Traces), FromStep: math.MaxInt64, Text: func(int32) string { return "" },
		Say: func(line string) { t.Error(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		done := trinity.Trained{Step: step}
		for run := range rollouts {
			e := trinity.TrainedExperience{Experience: trinity.Experience{
				ID: trinity.ExperienceID{Step: step, Task: "a", Run: run}, Tokens: []int32{1, 2, 3}, PromptLen: 1,
				Mask: []bool{false, true, true}, Advantages: []float32{9, 1, 2},
				Prompt: "1+1?", Response: fmt.Sprint("two <b>", step, " ", strings.Repeat("ä", 9000*run)),
			}}
			if run == 0 {
				e.Reward = trinity.NewReward(map[string]float64{"accuracy": 0.5})
				e.Updates = []trinity.Update{{Index: 0}, {Index: 1}}
			}
			done.Experiences = append(done.Experiences, e)
		}
		w.Trained(done)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// rolloutsIn returns the rollouts in the database of the project p, by train step.
func rolloutsIn(t *testing.T, dir string) map[int64]int {
	t.Helper()
	address, err := dburl.Parse("sqlite:///" + filepath.Join(dir, "p.db"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := database.Open(t.Context(), address, database.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	got := map[int64]int{}
	err = db.Each(t.Context(), "SELECT step, messages FROM traces", nil, func() { clear(got) }, func(rows *sql.Rows) error {
		var step int64
		var text string
		if err := rows.Scan(&step, &text); err != nil {
			return err
		}
		if n := len([]rune(text)); n > maxText+200 {
			t.Errorf("a text of %d characters", n)
		}
		got[step]++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// A sink has the rollouts of each train step once, a bounded number: after a kill, a damaged file and
// trinity sync.
func TestTablesComeOnce(t *testing.T) {
	dir, db := filepath.Join(t.TempDir(), "monitor"), t.TempDir()
	args := map[string]any{"dir": db}
	want := func(steps ...int64) {
		t.Helper()
		all := map[int64]int{}
		for _, step := range steps {
			all[step] = maxRollouts
		}
		if got := rolloutsIn(t, db); fmt.Sprint(got) != fmt.Sprint(all) {
			t.Errorf("it has rollouts of the steps %v, want %v", got, all)
		}
	}
	train(t, dir, 40, 1, 2)
	monitors, said := followed(t, dir, "trackio", args)
	end(t, monitors, "")
	want(1, 2)
	lost, err := openTail(dir, "trackio")
	if err != nil {
		t.Fatal(err)
	}
	lost.at.Tables = 1
	if err := lost.keep(lost.at); err != nil {
		t.Fatal(err)
	}
	train(t, dir, 40, 3)
	if err := os.WriteFile(trace.StepFile(filepath.Join(filepath.Dir(dir), rundir.Traces), 4), []byte("PAR1"), 0o644); err != nil {
		t.Fatal(err)
	}
	monitors, again := followed(t, dir, "trackio", args)
	end(t, monitors, Finished)
	want(1, 2, 3)
	if said() != "" || strings.Count(again(), "\n") > 0 || !strings.Contains(again(), "step-4.parquet") {
		t.Errorf("the run says %q, then %q", said(), again())
	}
	train(t, dir, 40, 5)
	for range 2 {
		if n, err := Sync(t.Context(), dir, "trackio", args, nil); n != 0 || err != nil {
			t.Errorf("sync: %d, %v", n, err)
		}
		want(1, 2, 3, 5)
	}
	train(t, dir, 40, 6)
	if n, err := Sync(t.Context(), dir, "trackio", map[string]any{"dir": db, "tables": false}, nil); n != 0 || err != nil {
		t.Errorf("sync without tables: %d, %v", n, err)
	}
	want(1, 2, 3, 5)
}

// A rollout of a table is an experience, however many optimizer steps learned from it.
func TestARolloutOfATable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "monitor")
	train(t, dir, 2, 3)
	table, err := readTable(filepath.Join(filepath.Dir(dir), rundir.Traces), 3)
	if err != nil || len(table.Rollouts) != 2 || table.Time.IsZero() {
		t.Fatalf("%+v, %v", table, err)
	}
	first, second := table.Rollouts[0], table.Rollouts[1]
	if first.Reward == nil || *first.Reward != 0.5 || second.Reward != nil {
		t.Errorf("rewards %v, %v", first.Reward, second.Reward)
	}
	first.Reward = nil
	want := Rollout{ID: "3/a/0/0", Task: "a", ExploreStep: 3, Prompt: "1+1?", Response: "two <b>3 ", Advantage: 1.5}
	if first != want {
		t.Errorf("%+v, want %+v", first, want)
	}
}
