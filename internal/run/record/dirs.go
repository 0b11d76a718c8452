package record

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/blobs"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/experience"
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
	cfg.Log.SaveDir = filepath.Join(job, rundir.Logs)
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

// OneOfSeveral reports whether the process is one of several explorers of a run.
func OneOfSeveral(cfg *config.Settled) bool {
	return (cfg.Mode == "explore" || cfg.Records()) && cfg.Explorer.Name != config.OnlyExplorer
}

// OwnDir returns the directory of the run's archive at path. A path in the run's directory is the
// run's own. Elsewhere several runs may have the same path, so each writes to a directory below it
// that bears the run's word. A dataset at path finds it there.
func OwnDir(s *config.Settled, path string) (string, error) {
	for _, dir := range []string{s.CheckpointJobDir, s.Buffer.CacheDir} {
		if in, err := IsBelow(path, dir); err != nil || in {
			return path, err
		}
	}
	word, err := Word(s)
	return filepath.Join(path, word+experience.Form(path)), err
}

// IsBelow reports whether path lies in dir.
func IsBelow(path, dir string) (bool, error) {
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

// ArchiveName returns the run's name for its archive in a database that many runs share. The name
// includes the explorer's name if there are several.
func ArchiveName(s *config.Settled, what string) (string, error) {
	word, err := Word(s)
	if err != nil {
		return "", err
	}
	name := what + "-" + word
	if OneOfSeveral(s) {
		name = s.Explorer.Name + "-" + name
	}
	return path.Join(s.Project, s.Group, s.Name, name), nil
}

// Word returns a random word that the run's directory keeps. Suppose that a user removes the
// directory and starts a run of the same name: the word tells the two runs apart in a shared store
// and in archives outside of the directory.
func Word(s *config.Settled) (string, error) {
	file := WordFile(s.Buffer.CacheDir)
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

// WordFile returns the path of the file with the word of a run.
func WordFile(cacheDir string) string { return filepath.Join(cacheDir, "store_word") }

// Parts names the parts of a run that the process does: several processes may share a run.
func Parts(cfg *config.Settled) []string {
	switch {
	case cfg.Mode == "serve" && !cfg.Records(): // it only reads
		return nil
	case cfg.Together:
		return []string{trinity.RoleExplorer, trinity.RoleTrainer}
	case OneOfSeveral(cfg):
		return []string{"explorer_" + cfg.Explorer.Name}
	case cfg.Mode == "explore", cfg.Mode == "serve":
		return []string{trinity.RoleExplorer}
	}
	return []string{trinity.RoleTrainer}
}

// LockDir keeps two processes from doing the same part of one run. homes are the monitor directories of
// its stages.
func LockDir(dir string, names []string, homes ...string) (unlock func(), err error) {
	var locks []*durable.Lock
	unlock = func() {
		for _, l := range locks {
			l.Release()
		}
	}
	for _, name := range names {
		l, err := lock(dir, name, homes)
		if err != nil {
			unlock()
			return nil, err
		}
		locks = append(locks, l)
	}
	return unlock, nil
}

// lock takes the lock of one part of the stages whose monitor directories are homes. The error names
// the process that holds it.
func lock(dir, name string, homes []string) (*durable.Lock, error) {
	l, err := durable.TakeLock(dir, name, "")
	var other durable.Held
	for end := time.Now().Add(endingTime); errors.As(err, &other) && hasEnded(homes, name) && time.Now().Before(end); {
		time.Sleep(endingTime / 100)
		l, err = durable.TakeLock(dir, name, "")
	}
	if !errors.As(err, &other) {
		return l, err
	}
	advice := "change `name`"
	if strings.HasPrefix(name, "explorer") {
		advice += "; one of several explorers has a name of its own, `explorer.name`"
	}
	return nil, fmt.Errorf("%s has the %s of %w: wait for it or end it, or %s", dir, name, other, advice)
}

// endingTime is how long a process may take to give its locks back after it has told its end.
const endingTime = 5 * time.Second

// hasEnded reports whether a part of a run has told that it has ended, in all stages that have begun.
func hasEnded(homes []string, part string) bool {
	ended := false
	for _, home := range homes {
		about, err := rundir.ReadAbout(home)
		if p, began := about.Parts[part]; err == nil && began {
			if ended = p.Status != ""; !ended {
				return false
			}
		}
	}
	return ended
}

// LinkImages makes the images of a run readable below another directory, for what only reads them.
func LinkImages(from, to string) error { return blobs.In(from).Link(to) }
