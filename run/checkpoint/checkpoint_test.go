package checkpoint

import (
	"os"
	"path/filepath"
	"testing"
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
