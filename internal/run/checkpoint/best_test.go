package checkpoint

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trinity-go/trinity/internal/rundir"
)

func TestSinceTheBest(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		values []float64
		lower  bool
		since  int
		best   int64 // version, from 1 on; 0 for none
	}{
		"rising":           {[]float64{1, 2, 3}, false, 0, 3},
		"falling":          {[]float64{3, 2, 1}, false, 2, 1},
		"a loss":           {[]float64{3, 2, 1}, true, 0, 3},
		"as good":          {[]float64{2, 2, 2}, false, 2, 1},
		"rounded":          {[]float64{.8958333333333333, .8958333333333335}, false, 1, 1},
		"no number at all": {[]float64{nan, nan}, false, 1, 0},
		"a number after":   {[]float64{nan, 1, nan}, false, 1, 2},
		"infinite":         {[]float64{1, math.Inf(1), 2}, false, 1, 2},
		"worst of all":     {[]float64{1, math.Inf(1), 2}, true, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			e := Evaluations{Lower: c.lower}
			for i, v := range slices.Backward(c.values) {
				e.Add(int64(i+1), v)
				e.Add(int64(i+1), v)
			}
			if since := e.Since(int64(len(c.values)) + 1); since != c.since || len(e.All) != len(c.values) {
				t.Errorf("%d evaluations since the best of %+v", since, e.All)
			}
			best, ok := e.best(func(int64) bool { return true })
			if best.Version != c.best || ok != (c.best > 0) {
				t.Errorf("the best is %+v", best)
			}
			if e.Since(1) != 0 {
				t.Error("evaluations of later versions count")
			}
		})
	}
}

// Checkpoints that an evaluation asked for go when it is known that they are not the best. All others go by their number.
func TestRotationKeepsTheBest(t *testing.T) {
	d := Dir{Path: t.TempDir(), Keep: 2, Say: func(string) {}}
	e := Evaluations{Metric: "m"}
	values := []float64{0.1, 0.5, 0.9, 0.3, 0.2, 0.4, 0.6, 0.1}
	for i, v := range values {
		step := int64(i + 1)
		if err := d.Save(State{Step: step, ForEvaluation: step%2 == 1}, func(string) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if steps, err := d.Steps(); err != nil || !slices.Contains(steps, step) {
			t.Fatalf("step %d is gone before its evaluation has ended: %v, %v", step, steps, err)
		}
		e.Add(step, v)
		if err := d.KeepEvaluations(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Save(State{Step: 9}, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if steps, err := d.Steps(); err != nil || !slices.Equal(steps, []int64{3, 8, 9}) {
		t.Errorf("%v, %v; want the best, 3, and the two newest", steps, err)
	}
	best, err := d.Best()
	if err != nil || best.Step != 3 || best.Value != 0.9 || best.Checkpoint != d.Of(3) || best.Start != nil {
		t.Errorf("%+v, %v", best, err)
	}
	if err := os.RemoveAll(d.Of(3)); err != nil {
		t.Fatal(err)
	}
	if best, err := d.Best(); err != nil || best.Step != 8 {
		t.Errorf("%+v, %v; want the best that is there", best, err)
	}
}

func TestDamagedEvaluations(t *testing.T) {
	for _, text := range []string{
		"", "{", "[]", `{"metric": 1}`, `{"evaluations": [{"version": 1e30}]}`, `{"evaluations": [{"value": null}]}`,
	} {
		d := Dir{Path: t.TempDir()}
		path := filepath.Join(d.Path, rundir.BestFile)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		want := path + " is damaged: remove it to forget which checkpoint is the best"
		if _, err := d.Best(); err == nil || err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzEvaluations(f *testing.F) {
	f.Add([]byte(`{"metric": "eval/few/accuracy/mean@1", "lower_is_better": true,
		"evaluations": [{"version": 2, "value": 0.5}, {"version": 1, "value": "NaN"}]}`))
	f.Add([]byte(`{"evaluations": null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d := Dir{Path: t.TempDir()}
		if err := os.WriteFile(filepath.Join(d.Path, rundir.BestFile), text, 0o644); err != nil {
			t.Fatal(err)
		}
		e, err := d.Evaluations()
		if err != nil {
			return
		}
		e.Since(math.MaxInt64)
		e.IsBest(1)
		if err := d.KeepEvaluations(e); err != nil {
			t.Fatal(err)
		}
		if again, err := d.Evaluations(); err != nil || len(again.All) != len(e.All) {
			t.Errorf("%+v, %v; want %+v", again, err, e)
		}
		if _, err := d.Best(); err != nil {
			t.Error(err)
		}
	})
}
