package checkpoint

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/trinity-go/trinity/internal/durable"
)

// A kill right after a checkpoint appeared leaves it unnamed, and older ones in place.
func TestLatestFinishesWhatAKillLeft(t *testing.T) {
	c := Dir{Path: t.TempDir(), Keep: 2, Say: func(line string) { t.Error(line) }}
	for step := range int64(4) {
		if err := c.Save(State{Step: step, Algorithm: []byte("{}")}, func(string) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	latest := filepath.Join(c.Path, latestFile)
	if err := os.Rename(c.Of(3), c.Of(9)); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(c.Of(1), os.DirFS(c.Of(2))); err != nil {
		t.Fatal(err)
	}
	if state, ok, err := c.Latest(); !ok || err != nil || state.Step != 3 {
		t.Fatalf("latest is %+v, %v, %v", state, ok, err)
	}
	if text, err := os.ReadFile(latest); err != nil || string(text) != "9" {
		t.Errorf("%s names %q, %v; want 9", latestFile, text, err)
	}
	if steps, err := c.Steps(); err != nil || len(steps) != 2 || steps[0] != 2 {
		t.Errorf("checkpoints %v, %v; want 2 and 9", steps, err)
	}
}

// A kill while a finished run adds the model to its last checkpoint leaves a part of the model there.
func TestLatestRemovesPartOfAModel(t *testing.T) {
	c := Dir{Path: t.TempDir(), Say: func(line string) { t.Error(line) }}
	if err := c.Save(State{Algorithm: []byte("{}")}, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, model := range []string{ModelDir, AdapterDir, CriticModelDir} {
		if err := killedIn(filepath.Join(c.Of(0), model)); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok, err := c.Latest(); !ok || err != nil {
		t.Errorf("latest is %v, %v", ok, err)
	}
	if left, err := filepath.Glob(filepath.Join(c.Of(0), "*", durable.TempPrefix+"*")); err != nil || left != nil {
		t.Errorf("left are %v, %v", left, err)
	}
}

// killedIn leaves what a kill leaves of a directory that was being written.
func killedIn(dir string) error {
	temp := filepath.Join(filepath.Dir(dir), durable.TempPrefix+filepath.Base(dir))
	if err := os.MkdirAll(temp, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(temp, "model.safetensors"), []byte("part"), 0o644)
}

func TestModelName(t *testing.T) {
	for path, want := range map[string]string{
		"models/SmolLM2": "SmolLM2", "SmolLM2.gguf": "SmolLM2.gguf", "org/name": "name", "r/global_step_8": "global_step_8",
		"r/rl/global_step_8/" + ModelDir: "global_step_8", "r/global_step_8/" + AdapterDir + "/": "global_step_8",
	} {
		if got := ModelName(path); got != want {
			t.Errorf("the model %s is called %q, want %q", path, got, want)
		}
	}
}

// What lies elsewhere of a checkpoint goes before its directory, so that a kill in between leaves nothing that nobody knows of.
func TestForgetComesBeforeARemoval(t *testing.T) {
	var forgotten []string
	d := Dir{Path: t.TempDir(), Keep: 1, Say: func(line string) { t.Error(line) }}
	d.Forget = func(dir string) {
		if exists(dir) {
			forgotten = append(forgotten, dir)
		}
	}
	for step := range int64(3) {
		if err := d.Save(State{Step: step, Algorithm: []byte("{}")}, func(string) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if len(forgotten) != 2 || forgotten[0] != d.Of(0) || forgotten[1] != d.Of(1) {
		t.Errorf("%q", forgotten)
	}
}
