package durable

import (
	"errors"
	"os"
)

// SyncPath flushes a file to the disk. Windows has no way to flush a directory's entries.
func SyncPath(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(Sync(f), f.Close())
}
