package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/rundir"
)

// parts names the parts of a run that the process does: several processes may share a run.
func parts(cfg *Settled) []string {
	switch {
	case cfg.Mode == "serve" && !cfg.Records(): // it only reads
		return nil
	case cfg.Together:
		return []string{trinity.RoleExplorer, trinity.RoleTrainer}
	case feed.OneOfSeveral(cfg.Settled):
		return []string{"explorer_" + cfg.Explorer.Name}
	case cfg.Mode == "explore", cfg.Mode == "serve":
		return []string{trinity.RoleExplorer}
	}
	return []string{trinity.RoleTrainer}
}

// lockDir keeps two processes from doing the same part of one run. homes are the monitor directories of
// its stages.
func lockDir(dir string, names []string, homes ...string) (unlock func(), err error) {
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

// lockStages keeps two processes from doing the stages of one run by turns, each with its own
// configuration: it locks the parts of all stages that are left. A process that does one stage alone
// has the locks of that stage.
func lockStages(cfg *config.Config, stages []*Settled, opts Options) (unlock func(), err error) {
	var names, homes []string
	for i, s := range stages {
		homes = append(homes, s.Monitor.CacheDir)
		if done, err := finished(s, i == len(stages)-1); err == nil && done == nil && opts.Stage == "" {
			names = append(names, parts(s)...)
		}
	}
	if names == nil {
		return func() {}, nil
	}
	if err := durable.MkdirAll(cfg.CheckpointJobDir, 0o755); err != nil {
		return nil, err
	}
	slices.Sort(names)
	return lockDir(cfg.CheckpointJobDir, slices.Compact(names), homes...)
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
