package durable

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// Lock is an exclusive lock between processes, known by a name in a directory. The kernel releases
// the lock of a process that dies.
type Lock struct{ held *flock.Flock }

// Held is the error of TakeLock if another process holds the lock.
type Held struct {
	By    string    `json:"by,omitempty"` // what the process holds it for, in words
	PID   int       `json:"pid"`          // 0 if the holder has not written it yet
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// Error names the holder.
func (h Held) Error() string {
	switch {
	case h.PID == 0:
		return "another process"
	case h.By == "":
		return fmt.Sprintf("process %d on %s, since %s", h.PID, h.Host, h.Since.Format(time.DateTime))
	}
	return fmt.Sprintf("%s (process %d on %s, since %s)", h.By, h.PID, h.Host, h.Since.Format(time.DateTime))
}

// LockPrefix starts the names of the files of locks.
const LockPrefix = ".lock_"

// holderPrefix and holderSuffix enclose a lock's name in the name of the file that tells its holder.
const (
	holderPrefix = ".holder_"
	holderSuffix = ".json"
)

// TakeLock takes the lock called name in an existing directory. holder says in words what for. If
// another process holds the lock, the error is [Held].
func TakeLock(dir, name, holder string) (*Lock, error) {
	l := flock.New(filepath.Join(dir, LockPrefix+name))
	whose := filepath.Join(dir, holderPrefix+name+holderSuffix) // not in the lock file: on some systems no other process can read that
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Path(), err)
	}
	if !ok {
		var other Held
		if text, err := os.ReadFile(whose); err != nil || json.Unmarshal(text, &other) != nil {
			other = Held{}
		}
		return nil, other
	}
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	text, err := json.Marshal(Held{holder, os.Getpid(), host, time.Now()})
	if err == nil {
		// Written in place: a process that starts at the same time would remove a temporary file as
		// a leftover. A reader of a half-written file knows no holder yet.
		err = os.WriteFile(whose, text, 0o644)
	}
	if err != nil {
		_ = l.Unlock()
		return nil, err
	}
	return &Lock{l}, nil
}

// Release releases the lock.
func (l *Lock) Release() { _ = l.held.Unlock() } // nothing to do on an error: the lock ends with the process

// lockPoll is how often Acquire looks at a lock that another process has.
const lockPoll = 10 * time.Millisecond

// Acquire waits for the lock file at path, which it makes if there is none, until ctx ends. The
// kernel drops the lock of a process that dies.
func Acquire(ctx context.Context, path string) (release func(), err error) {
	l := flock.New(path)
	if _, err := l.TryLockContext(ctx, lockPoll); err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = l.Unlock() }, nil // nothing to do on an error: the lock ends with the process
}
