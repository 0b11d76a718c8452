package run

import (
	"errors"
	"fmt"
	"strings"

	"github.com/trinity-go/trinity/internal/durable"
)

// parts names the parts of a run that the process does: several processes may share a run.
func parts(cfg *Settled) []string {
	switch {
	case cfg.Mode == "serve" && !cfg.Records(): // it only reads
		return nil
	case cfg.Together:
		return []string{"explorer", "trainer"}
	case oneOfSeveral(cfg):
		return []string{"explorer_" + cfg.Explorer.Name}
	case cfg.Mode == "explore", cfg.Mode == "serve":
		return []string{"explorer"}
	}
	return []string{"trainer"}
}

// lockDir keeps two processes from doing the same part of one run.
func lockDir(dir string, names []string) (unlock func(), err error) {
	var locks []*durable.Lock
	unlock = func() {
		for _, l := range locks {
			l.Release()
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

// lock takes the lock of one part. The error names the process that holds it.
func lock(dir, name string) (*durable.Lock, error) {
	l, err := durable.TakeLock(dir, name, "")
	var other durable.Held
	if !errors.As(err, &other) {
		return l, err
	}
	advice := "change `name`"
	if strings.HasPrefix(name, "explorer") {
		advice += "; one of several explorers has a name of its own, `explorer.name`"
	}
	return nil, fmt.Errorf("%s has the %s of %w: wait for it or end it, or %s", dir, name, other, advice)
}
