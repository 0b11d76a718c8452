package checkpoint

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trinity-go/trinity/internal/rundir"
)

// Checkpoints that an evaluation asked for go when it is known that they are not the best. All others go by their number.
func TestRotationKeepsTheBest(t *testing.T) {
	d := Dir{Path: t.TempDir(), Keep: 2, Say: func(string) {}}
	e := rundir.Evaluations{Metric: "m"}
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
	best, err := rundir.ReadBest(d.Path)
	if err != nil || best.Step != 3 || best.Value != 0.9 || best.Checkpoint != d.Of(3) || best.Start != nil {
		t.Errorf("%+v, %v", best, err)
	}
	if err := os.RemoveAll(d.Of(3)); err != nil {
		t.Fatal(err)
	}
	if best, err := rundir.ReadBest(d.Path); err != nil || best.Step != 8 {
		t.Errorf("%+v, %v; want the best that is there", best, err)
	}
}

// A stage that only made worse what an earlier one wrote hands that on.
func TestTheStartIsHandedOnIfItWasBetter(t *testing.T) {
	root := t.TempDir()
	first, second := Dir{Path: filepath.Join(root, "warmup"), Say: func(string) {}}, Dir{Path: filepath.Join(root, "rl"), Say: func(string) {}}
	began := filepath.Join(first.Of(3), AdapterDir)
	for _, err := range []error{
		first.Save(State{Step: 3}, func(string) error { return nil }),
		second.Save(State{Step: 5, Made: Provenance{Settings: map[string]string{AdapterKey: began, ModelKey: "base"}}},
			func(string) error { return nil }),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for start, want := range map[float64]string{0.9: first.Of(3), 0.1: second.Of(5)} {
		e := rundir.Evaluations{Metric: "m"}
		e.Add(0, start)
		e.Add(5, 0.5)
		if err := second.KeepEvaluations(e); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{root, second.Path} {
			if got := inRun(dir); got != want {
				t.Errorf("%s opens %s, want %s", dir, got, want)
			}
		}
	}
	e := rundir.Evaluations{Metric: "m"} // the start is better, and has no critic
	e.Add(0, 0.9)
	e.Add(5, 0.5)
	err := errors.Join(second.KeepEvaluations(e), os.MkdirAll(filepath.Join(second.Of(5), CriticEngineDir), 0o755))
	if got, want := inRun(second.Path), second.Of(5); err != nil || got != want {
		t.Errorf("with a critic it opens %s, want %s; %v", got, want, err)
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
		if _, err := rundir.ReadBest(d.Path); err == nil || err.Error() != want {
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
		e, err := rundir.ReadEvaluations(d.Path)
		if err != nil {
			return
		}
		e.Since(math.MaxInt64)
		e.IsBest(1)
		if err := d.KeepEvaluations(e); err != nil {
			t.Fatal(err)
		}
		if again, err := rundir.ReadEvaluations(d.Path); err != nil || len(again.All) != len(e.All) {
			t.Errorf("%+v, %v; want %+v", again, err, e)
		}
		if _, err := rundir.ReadBest(d.Path); err != nil {
			t.Error(err)
		}
	})
}
