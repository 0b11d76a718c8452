package run

import (
	"fmt"
	"path/filepath"

	"github.com/gofrs/flock"
)

// lockDir keeps two processes from the same part in one run: exploring and training may be in two. The kernel drops a lock when its holder
// dies.
func lockDir(dir, mode string) (unlock func(), err error) {
	names := map[string][]string{"explore": {"explorer"}, "both": {"explorer", "trainer"}}[mode]
	if names == nil {
		names = []string{"trainer"}
	}
	var locks []*flock.Flock
	unlock = func() {
		for _, l := range locks {
			_ = l.Unlock() // an unlock that fails leaves nothing to do: the lock ends with the process
		}
	}
	for _, name := range names {
		path := filepath.Join(dir, ".lock_"+name)
		l := flock.New(path)
		ok, err := l.TryLock()
		if err != nil {
			unlock()
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if !ok {
			unlock()
			return nil, fmt.Errorf("%s has the %s of another process: wait for it, or change `name`", dir, name)
		}
		locks = append(locks, l)
	}
	return unlock, nil
}
