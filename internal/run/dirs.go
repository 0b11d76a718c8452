package run

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/internal/rundir"
)

// startAnew renames a run with stages that must not resume, if the directory of its name is not
// empty: all stages begin anew in one directory. With --stage, the other stages stay as they are.
func startAnew(cfg *config.Config, opts Options) error {
	if len(cfg.Stages) == 0 || opts.Stage != "" || !mustMove(cfg) {
		return nil
	}
	stamp := newStamp()
	job := cfg.CheckpointJobDir + stamp
	for i, s := range cfg.Settled() {
		moveTo(&s.Config, cfg.Name+stamp+"/"+cfg.Stages[i].StageName, filepath.Join(job, filepath.Base(s.CheckpointJobDir)))
	}
	moveTo(cfg, cfg.Name+stamp, job)
	return nil
}

// freshDir makes the run's directory. A run that must not resume gets a new directory, if the one
// of its name is not empty.
func freshDir(cfg *Settled) error {
	if mustMove(&cfg.Config) {
		stamp := newStamp()
		moveTo(&cfg.Config, cfg.Name+stamp, cfg.CheckpointJobDir+stamp)
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

// moveTo gives a run another name and directory.
func moveTo(cfg *config.Config, name, job string) {
	cfg.Name, cfg.CheckpointJobDir = name, job
	cfg.Buffer.CacheDir = filepath.Join(job, rundir.Buffer)
	cfg.Monitor.CacheDir = filepath.Join(job, rundir.Monitor)
	cfg.Log.SaveDir = filepath.Join(job, "log")
}

// ownDirs gives each of several explorers its own cache, monitor and log directories, and its own
// copies of the experiences.
func ownDirs(cfg *Settled) {
	if !oneOfSeveral(cfg) {
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

// oneOfSeveral reports whether the process is one of several explorers of a run.
func oneOfSeveral(cfg *Settled) bool {
	return (cfg.Mode == "explore" || cfg.Records()) && cfg.Explorer.Name != config.OnlyExplorer
}

// ownDir returns the directory of the run's archive at path. A path in the run's directory is the
// run's own. Elsewhere several runs may have the same path, so each writes to a directory below it
// that bears the run's word. A dataset at path finds it there.
func (s *Settled) ownDir(path string) (string, error) {
	for _, dir := range []string{s.CheckpointJobDir, s.Buffer.CacheDir} {
		if in, err := isBelow(path, dir); err != nil || in {
			return path, err
		}
	}
	word, err := s.word()
	return filepath.Join(path, word+experience.Form(path)), err
}

// isBelow reports whether path lies in dir.
func isBelow(path, dir string) (bool, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return false, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return false, err
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel), nil
}

// archiveName returns the run's name for its archive in a database that many runs share. The name
// includes the explorer's name if there are several.
func (s *Settled) archiveName(what string) (string, error) {
	word, err := s.word()
	if err != nil {
		return "", err
	}
	name := what + "-" + word
	if oneOfSeveral(s) {
		name = s.Explorer.Name + "-" + name
	}
	return path.Join(s.Project, s.Group, s.Name, name), nil
}

// word returns a random word that the run's directory keeps. Suppose that a user removes the
// directory and starts a run of the same name: the word tells the two runs apart in a shared store
// and in archives outside of the directory.
func (s *Settled) word() (string, error) {
	file := wordFile(s.Buffer.CacheDir)
	if err := durable.MkdirAll(s.Buffer.CacheDir, 0o755); err != nil {
		return "", err
	}
	lock := filepath.Join(s.Buffer.CacheDir, ".lock_store_word") // explorer and trainer may begin at once
	release, err := durable.Acquire(context.Background(), lock)
	if err != nil {
		return "", err
	}
	defer release()
	word, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		word = []byte(rand.Text()[:8])
		err = durable.WriteFile(file, word)
	}
	return string(word), err
}

func wordFile(cacheDir string) string { return filepath.Join(cacheDir, "store_word") }
