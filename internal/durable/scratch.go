package durable

import (
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/gofrs/flock"
)

// Scratch is a temporary folder, which its process has locked. The folder of a process that was killed
// is removed by the next process that makes one.
type Scratch struct {
	Dir  string
	lock *flock.Flock
}

// scratchLock is the name of the lock in a scratch folder.
const scratchLock = ".lock_scratch"

// sweepOnce removes, once in a process, what killed processes have left.
var sweepOnce = sync.OnceFunc(func() { sweepScratch(os.TempDir()) })

// NewScratch makes a folder whose name begins with prefix, which begins with "trinity-".
func NewScratch(prefix string) (*Scratch, error) {
	sweepOnce()
	for {
		dir, err := os.MkdirTemp("", prefix)
		if err != nil {
			return nil, err
		}
		l := flock.New(filepath.Join(dir, scratchLock))
		ok, err := l.TryLock()
		if _, gone := os.Stat(dir); gone != nil || err == nil && !ok {
			_ = l.Close() // a process that sweeps took the folder before this one could lock it
			continue
		}
		s := &Scratch{dir, l}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return s, nil
	}
}

// Close removes the folder.
func (s *Scratch) Close() error {
	return errors.Join(s.lock.Close(), os.RemoveAll(s.Dir)) // Windows removes no open file
}

// sweepScratch removes the scratch folders in dir whose processes have ended.
func sweepScratch(dir string) {
	locks, _ := filepath.Glob(filepath.Join(dir, "trinity-*", scratchLock)) // the pattern is right
	for _, path := range locks {
		folder := filepath.Dir(path)
		if info, err := os.Lstat(folder); err != nil || !info.IsDir() { // not through a link of somebody else
			continue
		}
		l := flock.New(path, flock.SetFlag(os.O_RDWR))
		if ok, err := l.TryLock(); ok && err == nil {
			_ = os.RemoveAll(folder) // another process may remove it at the same time
		}
		_ = l.Close()
	}
}
