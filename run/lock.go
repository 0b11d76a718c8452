package run

import (
	"fmt"
	"path/filepath"

	"github.com/gofrs/flock"
)

// lockDir keeps two processes from writing one run. The kernel drops the lock when its holder dies.
func lockDir(dir string) (unlock func(), err error) {
	path := filepath.Join(dir, ".lock")
	l := flock.New(path)
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if !ok {
		return nil, fmt.Errorf("%s is in use by another process: wait for it, or change `name`", dir)
	}
	return func() { _ = l.Unlock() }, nil // an unlock that fails leaves nothing to do: the lock ends with the process
}
