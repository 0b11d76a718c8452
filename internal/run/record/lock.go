package record

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
)

// Parts names the parts of a run that the process does: several processes may share a run.
func Parts(cfg *config.Settled) []string {
	switch {
	case cfg.Mode == "serve" && !cfg.Records(): // it only reads
		return nil
	case cfg.Together:
		return []string{trinity.RoleExplorer, trinity.RoleTrainer}
	case OneOfSeveral(cfg):
		return []string{"explorer_" + cfg.Explorer.Name}
	case cfg.Mode == "explore", cfg.Mode == "serve":
		return []string{trinity.RoleExplorer}
	}
	return []string{trinity.RoleTrainer}
}

// LockDir keeps two processes from doing the same part of one run. homes are the monitor directories of
// its stages.
func LockDir(dir string, names []string, homes ...string) (unlock func(), err error) {
	var locks []*durable.Lock
	unlock = func() {
		for _, l := range locks {
			l.Release()
		}
	}
	for _, name := range names {
		l, err := lock(dir, name, homes)
		if err != nil {
			unlock()
			return nil, err
		}
		locks = append(locks, l)
	}
	return unlock, nil
}

// lock takes the lock of one part of the stages whose monitor directories are homes. The error names
// the process that holds it.
func lock(dir, name string, homes []string) (*durable.Lock, error) {
	l, err := durable.TakeLock(dir, name, "")
	var other durable.Held
	for end := time.Now().Add(endingTime); errors.As(err, &other) && hasEnded(homes, name) && time.Now().Before(end); {
		time.Sleep(endingTime / 100)
		l, err = durable.TakeLock(dir, name, "")
	}
	if !errors.As(err, &other) {
		return l, err
	}
	advice := "change `name`"
	if strings.HasPrefix(name, "explorer") {
		advice += "; one of several explorers has a name of its own, `explorer.name`"
	}
	return nil, fmt.Errorf("%s has the %s of %w: wait for it or end it, or %s", dir, name, other, advice)
}

// endingTime is how long a process may take to give its locks back after it has told its end.
const endingTime = 5 * time.Second

// hasEnded reports whether a part of a run has told that it has ended, in all stages that have begun.
func hasEnded(homes []string, part string) bool {
	ended := false
	for _, home := range homes {
		about, err := rundir.ReadAbout(home)
		if p, began := about.Parts[part]; err == nil && began {
			if ended = p.Status != ""; !ended {
				return false
			}
		}
	}
	return ended
}
