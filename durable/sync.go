package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity/failpoint"
)

// failSynced is behind every flush: a trace of it says what was on the disk when.
var failSynced = failpoint.New("durable.synced")

// Sync flushes a file to the disk.
func Sync(f *os.File) error {
	if err := f.Sync(); err != nil {
		return err
	}
	return failSynced.Hit(f.Name())
}

// MkdirAll is os.MkdirAll of a directory that is there after a power cut: the names of those that it makes are on the disk.
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

// missing are the directories that are not there, from dir up. The root may be one: a drive of Windows that is not there.
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
