package record

import (
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
		cfg := &config.Settled{Config: config.Config{Mode: "explore"}}
		cfg.Buffer.TrainerInput.ExperienceBuffer = b
		cfg.Explorer.Name, cfg.DataProcessor.ExperiencePipeline.OutputSavePath = c.name, c.path
		OwnDirs(cfg)
		if p := &cfg.DataProcessor.ExperiencePipeline; p.OutputSavePath != c.want || b.Path != c.want || p.InputSavePath != "" {
			t.Errorf("explorer %s writes %s, %s and %q, want %s", c.name, p.OutputSavePath, b.Path, p.InputSavePath, c.want)
		}
	}
}
