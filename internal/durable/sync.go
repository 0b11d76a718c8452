package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity/internal/failpoint"
)

// failSynced follows every flush. Its trace shows what was on the disk at which moment.
var failSynced = failpoint.New("durable.synced")

// Sync flushes a file to the disk.
func Sync(f *os.File) error {
	if err := f.Sync(); err != nil {
		return err
	}
	return failSynced.Hit(f.Name())
}

// MkdirAll is os.MkdirAll that survives a power cut: it flushes the names of the directories that
// it makes.
func MkdirAll(dir string, mode os.FileMode) error {
	made := missing(dir, os.Stat)
	if err := os.MkdirAll(dir, mode); err != nil {
		return err
	}
	for _, d := range slices.Backward(made) {
		if err := SyncPath(filepath.Dir(d)); err != nil {
			return err
		}
	}
	return nil
}

// missing returns the directories that do not exist, from dir upwards. The root may be one of them:
// a missing drive of Windows.
func missing(dir string, stat func(string) (fs.FileInfo, error)) (dirs []string) {
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		if _, err := stat(at); !errors.Is(err, fs.ErrNotExist) {
			return dirs
		}
		if dirs = append(dirs, at); at == filepath.Dir(at) {
			return dirs
		}
	}
}
