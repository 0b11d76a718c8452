package run

import (
	"errors"
	"sync"
	"testing"

	"github.com/trinity-go/trinity/config"
)

// Explorer and trainer of a run begin at the same time, and both keep the settings.
func TestProcessesKeepTheSettingsAtTheSameTime(t *testing.T) {
	cfg := &config.Settled{Config: &config.Config{}}
	cfg.Monitor.CacheDir = t.TempDir()
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
