package record

import (
	"path/filepath"
	"testing"

	"github.com/trinity-go/trinity/internal/config"
)

// Two runs with the same path outside of their directories write to different directories; each
// finds its own again when it resumes.
func TestArchivesOutsideOfTheRun(t *testing.T) {
	dir := t.TempDir()
	shared := filepath.Join(dir, "kept.parquet")
	stageOf := func(run string) *config.Settled {
		cfg := &config.Settled{Config: config.Config{CheckpointJobDir: filepath.Join(dir, run)}}
		cfg.Buffer.CacheDir = filepath.Join(dir, run+"_cache")
		return cfg
	}
	own := func(run, path string) string {
		t.Helper()
		got, err := OwnDir(stageOf(run), path)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first, second := own("first", shared), own("second", shared)
	for _, got := range []string{first, second} {
		if filepath.Dir(got) != shared || filepath.Ext(got) != ".parquet" {
			t.Errorf("a run writes %s, want a directory in %s", got, shared)
		}
	}
	if first == second {
		t.Errorf("both runs write %s", first)
	}
	if again := own("first", shared); again != first {
		t.Errorf("the first run writes %s after %s", again, first)
	}
	for _, inside := range []string{filepath.Join(dir, "first", "kept.parquet"), filepath.Join(dir, "first_cache", "x", "kept.jsonl")} {
		if got := own("first", inside); got != inside {
			t.Errorf("the run writes %s, want %s", got, inside)
		}
	}
	t.Chdir(dir)
	if got := own("first", "first/kept.jsonl"); got != "first/kept.jsonl" {
		t.Errorf("the run writes %s, want its own directory, though the path is relative", got)
	}
}
