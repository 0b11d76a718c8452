package record

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path"
	"path/filepath"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/experience"
)

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

func WordFile(cacheDir string) string { return filepath.Join(cacheDir, "store_word") }
