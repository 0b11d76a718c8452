package record

import (
	"os"
	"path/filepath"
	"time"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
)

// StartAnew renames a run with stages that must not resume, if the directory of its name is not
// empty: all stages begin anew in one directory. With --stage, the other stages stay as they are.
func StartAnew(cfg *config.Config) error {
	if len(cfg.Stages) == 0 || !mustMove(cfg) {
		return nil
	}
	stamp := newStamp()
	job := cfg.CheckpointJobDir + stamp
	for i, s := range cfg.Settled() {
		MoveTo(&s.Config, cfg.Name+stamp+"/"+cfg.Stages[i].StageName, filepath.Join(job, filepath.Base(s.CheckpointJobDir)))
	}
	MoveTo(cfg, cfg.Name+stamp, job)
	return nil
}

// FreshDir makes the run's directory. A run that must not resume gets a new directory, if the one
// of its name is not empty.
func FreshDir(cfg *config.Settled) error {
	if mustMove(&cfg.Config) {
		stamp := newStamp()
		MoveTo(&cfg.Config, cfg.Name+stamp, cfg.CheckpointJobDir+stamp)
	}
	return durable.MkdirAll(cfg.CheckpointJobDir, 0o755)
}

// mustMove reports whether a run must not resume, and its directory is not empty.
func mustMove(cfg *config.Config) bool {
	entries, err := os.ReadDir(cfg.CheckpointJobDir)
	return err == nil && len(entries) > 0 && !cfg.ContinueFromCheckpoint && cfg.Mode != "serve" && !neverBegan(cfg.CheckpointJobDir)
}

// newStamp returns the end of a name that no run has yet.
func newStamp() string { return "_" + time.Now().Format("20060102150405") }

// MoveTo gives a run another name and directory.
func MoveTo(cfg *config.Config, name, job string) {
	cfg.Name, cfg.CheckpointJobDir = name, job
	cfg.Buffer.CacheDir = filepath.Join(job, rundir.Buffer)
	cfg.Monitor.CacheDir = filepath.Join(job, rundir.Monitor)
	cfg.Log.SaveDir = filepath.Join(job, "log")
}

// OwnDirs gives each of several explorers its own cache, monitor and log directories, and its own
// copies of the experiences.
func OwnDirs(cfg *config.Settled) {
	if !OneOfSeveral(cfg) {
		return
	}
	for _, dir := range []*string{&cfg.Buffer.CacheDir, &cfg.Monitor.CacheDir, &cfg.Log.SaveDir} {
		*dir = filepath.Join(*dir, cfg.Explorer.Name)
	}
	copies := &cfg.DataProcessor.ExperiencePipeline
	paths := []*string{&copies.InputSavePath, &copies.OutputSavePath}
	if b := cfg.Buffer.TrainerInput.ExperienceBuffer; b.StorageType == "file" {
		paths = append(paths, &b.Path)
	}
	for _, path := range paths {
		if *path != "" && !dburl.IsURL(*path) { // in a database the run's name tells them apart
			*path = filepath.Join(filepath.Dir(*path), cfg.Explorer.Name+"-"+filepath.Base(*path))
		}
	}
}

// Present reports whether a file or directory exists.
func Present(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
