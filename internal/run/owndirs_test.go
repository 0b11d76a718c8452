package run

import (
	"path/filepath"
	"testing"

	"github.com/trinity-go/trinity/internal/config"
)

// Each of several explorers writes archives of its own.
func TestArchivesOfSeveralExplorers(t *testing.T) {
	for _, c := range []struct{ name, path, want string }{
		{config.OnlyExplorer, "kept/all.parquet", "kept/all.parquet"},
		{"left", "kept/all.parquet", "kept/left-all.parquet"},
		{"left", "sqlite:///kept/all.db", "sqlite:///kept/all.db"},
	} {
		b := &config.ExperienceBuffer{StorageType: "file", Path: c.path}
		cfg := &Settled{Settled: &config.Settled{Config: config.Config{Mode: "explore"}}}
		cfg.Buffer.TrainerInput.ExperienceBuffer = b
		cfg.Explorer.Name, cfg.DataProcessor.ExperiencePipeline.OutputSavePath = c.name, c.path
		ownDirs(cfg)
		if p := &cfg.DataProcessor.ExperiencePipeline; p.OutputSavePath != c.want || b.Path != c.want || p.InputSavePath != "" {
			t.Errorf("explorer %s writes %s, %s and %q, want %s", c.name, p.OutputSavePath, b.Path, p.InputSavePath, c.want)
		}
	}
}

// Two runs with the same path outside of their directories write to different directories; each
// finds its own again when it resumes.
func TestArchivesOutsideOfTheRun(t *testing.T) {
	dir := t.TempDir()
	shared := filepath.Join(dir, "kept.parquet")
	stageOf := func(run string) *Settled {
		cfg := &Settled{Settled: &config.Settled{Config: config.Config{CheckpointJobDir: filepath.Join(dir, run)}}}
		cfg.Buffer.CacheDir = filepath.Join(dir, run+"_cache")
		return cfg
	}
	own := func(run, path string) string {
		t.Helper()
		got, err := stageOf(run).ownDir(path)
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
