//go:build !windows

package durable

import (
	"errors"
	"os"
)

// syncPath flushes a file or a directory's entries to the disk.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(Sync(f), f.Close())
}
