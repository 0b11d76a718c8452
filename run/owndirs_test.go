package run

import (
	"testing"

	"github.com/trinity-go/trinity/config"
)

// Of several explorers each writes copies of its own.
func TestCopiesOfSeveralExplorers(t *testing.T) {
	for _, c := range []struct{ name, path, want string }{
		{config.OnlyExplorer, "kept/all.parquet", "kept/all.parquet"},
		{"left", "kept/all.parquet", "kept/left-all.parquet"},
		{"left", "sqlite:///kept/all.db", "sqlite:///kept/all.db"},
	} {
		cfg := &config.Config{Mode: "explore"}
		cfg.Explorer.Name, cfg.DataProcessor.ExperiencePipeline.OutputSavePath = c.name, c.path
		ownDirs(cfg)
		if p := &cfg.DataProcessor.ExperiencePipeline; p.OutputSavePath != c.want || p.InputSavePath != "" {
			t.Errorf("explorer %s writes %s and %q, want %s", c.name, p.OutputSavePath, p.InputSavePath, c.want)
		}
	}
}
