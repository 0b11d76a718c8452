package durable

import (
	"errors"
	"io/fs"
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
		return &Scratch{dir, l}, nil // unlocked where the system has no locks, such as on NFS; then nobody sweeps either
	}
}

// Close removes the folder.
func (s *Scratch) Close() error {
	return errors.Join(s.lock.Close(), removeFolder(s.Dir)) // Windows removes no open file
}

// removeFolder removes a folder, also one in which a program has forbidden folders to this user.
func removeFolder(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// sweepScratch removes the scratch folders in dir whose processes have ended.
func sweepScratch(dir string) {
	locks, _ := filepath.Glob(filepath.Join(dir, "trinity-*", scratchLock)) // the pattern is right
	for _, path := range locks {
		folder := filepath.Dir(path)
		at, err := os.Lstat(folder)
		lock, err2 := os.Lstat(path)
		if errors.Join(err, err2) != nil || !at.IsDir() || !lock.Mode().IsRegular() { // not through a link of somebody else
			continue
		}
		l := flock.New(path, flock.SetFlag(os.O_RDWR))
		if ok, err := l.TryLock(); ok && err == nil {
			_ = removeFolder(folder) // another process may remove it at the same time
		}
		_ = l.Close()
	}
}
