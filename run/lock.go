package run

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/trinity-go/trinity/config"
)

// holder is the process that has a lock, as the file beside the lock tells others.
type holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

func (h holder) String() string {
	if h.PID == 0 {
		return "another process"
	}
	return fmt.Sprintf("process %d on %s, since %s", h.PID, h.Host, h.Since.Format(time.DateTime))
}

// parts are what the mode does in a run: exploring and training may be in several processes.
func parts(cfg *config.Config) []string {
	switch {
	case cfg.Mode == "serve": // it only reads
		return nil
	case cfg.Together():
		return []string{"explorer", "trainer"}
	case cfg.Mode == "explore" && cfg.Explorer.Name != config.OnlyExplorer:
		return []string{"explorer_" + cfg.Explorer.Name}
	case cfg.Mode == "explore":
		return []string{"explorer"}
	}
	return []string{"trainer"}
}

// lockDir keeps two processes from the same part in one run. The kernel drops a lock when its holder dies.
func lockDir(dir string, names []string) (unlock func(), err error) {
	var locks []*flock.Flock
	unlock = func() {
		for _, l := range locks {
			_ = l.Unlock() // an unlock that fails leaves nothing to do: the lock ends with the process
		}
	}
	for _, name := range names {
		l, err := lock(dir, name)
		if err != nil {
			unlock()
			return nil, err
		}
		locks = append(locks, l)
	}
	return unlock, nil
}

// lock takes the part of that name in a run.
func lock(dir, name string) (*flock.Flock, error) {
	path := filepath.Join(dir, ".lock_"+name)
	whose := filepath.Join(dir, ".holder_"+name+".json") // not in the lock itself, which some systems let nobody else read
	l := flock.New(path)
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if !ok {
		var other holder
		if text, err := os.ReadFile(whose); err != nil || json.Unmarshal(text, &other) != nil {
			other = holder{} // it has just begun
		}
		return nil, fmt.Errorf("%s has the %s of %s: wait for it or end it, or change `name`", dir, name, other)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	// Not under another name at first: a trainer that begins at the same time would remove that as a leftover. Who reads half of it knows no holder yet.
	if err := os.WriteFile(whose, encodeJSON(holder{os.Getpid(), host, time.Now()}), 0o644); err != nil {
		_ = l.Unlock()
		return nil, err
	}
	return l, nil
}
