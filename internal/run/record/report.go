package record

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/report"
	"github.com/trinity-go/trinity/internal/rundir"
)

// keepSettings writes the settings that differ from the defaults, for the report. Explorer and
// trainer in two processes may write at the same time.
func keepSettings(cfg *config.Settled) error {
	text, err := cfg.Differences()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.Monitor.CacheDir, 0o755); err != nil {
		return err
	}
	release, err := durable.Acquire(context.Background(), filepath.Join(cfg.Monitor.CacheDir, ".config.lock"))
	if err != nil {
		return err
	}
	defer release()
	return durable.WriteFile(filepath.Join(cfg.Monitor.CacheDir, rundir.SettingsFile), []byte(text))
}

// Report writes the report of the run in dir, if the run has made a step, and returns its path. A run does not fail
// because of its report.
func Report(dir string, say func(string)) string {
	path := filepath.Join(dir, report.File)
	page, err := report.Read(dir)
	if err == nil {
		err = page.WriteFile(path)
	}
	switch {
	case err == nil:
		return path
	case !errors.Is(err, report.ErrNoRecords) && !errors.Is(err, fs.ErrNotExist):
		say("no report: " + err.Error())
	}
	return ""
}
