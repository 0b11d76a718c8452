package record

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"

	_ "github.com/trinity-go/trinity/algorithm"
	_ "github.com/trinity-go/trinity/algorithm/advantage"
	_ "github.com/trinity-go/trinity/algorithm/loss"
	_ "github.com/trinity-go/trinity/algorithm/sample"
	_ "github.com/trinity-go/trinity/engine/cpu"
	"github.com/trinity-go/trinity/internal/config"
	_ "github.com/trinity-go/trinity/selector"
)

// Explorer and trainer of a run begin at the same time, and both keep the settings.
func TestProcessesKeepTheSettingsAtTheSameTime(t *testing.T) {
	path := filepath.Join("..", "..", "cli", "testdata", "sft.yaml")
	loaded, err := config.Load(path, config.Options{Overrides: []string{"checkpoint_root_dir=" + t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := loaded.Settled()[0]
	var wg sync.WaitGroup
	errs := make([]error, 32)
	for i := range errs {
		wg.Go(func() { errs[i] = keepSettings(cfg) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}
