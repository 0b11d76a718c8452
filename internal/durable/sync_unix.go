//go:build !windows

package durable

import (
	"errors"
	"os"
)

// SyncPath flushes a file, or the names in a directory, to the disk.
func SyncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(Sync(f), f.Close())
}
