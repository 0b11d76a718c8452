package run

import (
	"testing"

	"github.com/trinity-go/trinity/config"
)

// Of several explorers each writes copies of its own.
func TestCopiesOfSeveralExplorers(t *testing.T) {
	for name, want := range map[string]string{config.OnlyExplorer: "kept/all.parquet", "left": "kept/left-all.parquet"} {
		cfg := &config.Config{Mode: "explore"}
		cfg.Explorer.Name, cfg.DataProcessor.ExperiencePipeline.OutputSavePath = name, "kept/all.parquet"
		ownDirs(cfg)
		if p := &cfg.DataProcessor.ExperiencePipeline; p.OutputSavePath != want || p.InputSavePath != "" {
			t.Errorf("explorer %s writes %s and %q, want %s", name, p.OutputSavePath, p.InputSavePath, want)
		}
	}
}
