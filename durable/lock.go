package durable

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// Lock keeps all other processes from what a name in a directory stands for. The kernel drops the lock of a process that dies.
type Lock struct{ held *flock.Flock }

// Held is the error where another process has a lock.
type Held struct {
	By    string    `json:"by,omitempty"` // whom it is held for, in words
	PID   int       `json:"pid"`          // 0 if it has just begun
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// Error says who has it.
func (h Held) Error() string {
	switch {
	case h.PID == 0:
		return "another process"
	case h.By == "":
		return fmt.Sprintf("process %d on %s, since %s", h.PID, h.Host, h.Since.Format(time.DateTime))
	}
	return fmt.Sprintf("%s (process %d on %s, since %s)", h.By, h.PID, h.Host, h.Since.Format(time.DateTime))
}

// TakeLock takes the lock of a name in a directory that is there, for whom by says in words. Where another process has it the error is [Held].
func TakeLock(dir, name, by string) (*Lock, error) {
	l := flock.New(filepath.Join(dir, ".lock_"+name))
	whose := filepath.Join(dir, ".holder_"+name+".json") // not in the lock itself, which some systems let nobody else read
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
	text, err := json.Marshal(Held{by, os.Getpid(), host, time.Now()})
	if err == nil {
		// Not under another name at first: who begins at the same time would remove that as a leftover. Who reads half of it knows no holder yet.
		err = os.WriteFile(whose, text, 0o644)
	}
	if err != nil {
		_ = l.Unlock()
		return nil, err
	}
	return &Lock{l}, nil
}

// Release gives the lock back.
func (l *Lock) Release() { _ = l.held.Unlock() } // one that fails leaves nothing to do: the lock ends with the process
