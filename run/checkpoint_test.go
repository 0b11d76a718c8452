package run

import (
	"os"
	"path/filepath"
	"testing"
)

// A run that was killed right after its checkpoint appeared had not named it, nor removed older ones.
func TestAKillBehindACheckpointIsMadeUpFor(t *testing.T) {
	c := checkpoints{dir: t.TempDir(), keep: 2, say: func(line string) { t.Error(line) }}
	for step := range int64(4) {
		if err := c.save(runState{Step: step, Algorithm: []byte("{}")}, nil, func(string) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	latest := filepath.Join(c.dir, latestFile)
	if err := os.Rename(c.path(3), c.path(9)); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(c.path(1), os.DirFS(c.path(2))); err != nil {
		t.Fatal(err)
	}
	if _, dir, _, ok, err := c.latest(); !ok || err != nil || dir != c.path(9) {
		t.Fatalf("latest is %s, %v, %v", dir, ok, err)
	}
	if text, err := os.ReadFile(latest); err != nil || string(text) != "9" {
		t.Errorf("%s names %q, %v; want 9", latestFile, text, err)
	}
	if steps, err := c.steps(); err != nil || len(steps) != 2 || steps[0] != 2 {
		t.Errorf("checkpoints %v, %v; want 2 and 9", steps, err)
	}
}
