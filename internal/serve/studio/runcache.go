package studio

import (
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/trinity-go/trinity/internal/rundir"
)

// runCache is what the list of runs keeps of a run until its files change.
type runCache struct {
	mu       sync.Mutex
	settings settingsCache
	tails    map[string]*tail // by monitor directory
	newest   map[string]*newest
}

// settingsCache are settings until their file changes.
type settingsCache struct {
	mu   sync.Mutex
	file [2]int64  // size and time of the file
	set  *settings // never changed once it is here
	err  error
}

// known returns what is kept of the run in a directory.
func (s *Server) known(dir string) *runCache {
	k, _ := s.runsKnown.LoadOrStore(dir, &runCache{tails: map[string]*tail{}, newest: map[string]*newest{}})
	return k.(*runCache)
}

// forget drops what is kept of runs that are no longer there; ids are all that are.
func (s *Server) forget(root string, ids []string) {
	there := map[string]bool{}
	for _, id := range ids {
		there[dirIn(root, id)] = true
	}
	s.runsKnown.Range(func(dir, _ any) bool {
		if !there[dir.(string)] && !exists(dir.(string)) {
			s.runsKnown.Delete(dir)
		}
		return true
	})
}

func (k *settingsCache) of(dir string) (*settings, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	file := [2]int64{-1, 0}
	for _, d := range rundir.Monitors(dir) {
		if info, err := os.Lstat(filepath.Join(d, rundir.SettingsFile)); err == nil {
			file = [2]int64{info.Size(), info.ModTime().UnixNano()}
			break
		}
	}
	if k.set == nil || k.file != file {
		set, err := readSettings(dir)
		k.set, k.err, k.file = &set, err, file
	}
	return k.set, k.err
}

func (k *runCache) tail(dir string, starts []time.Time) (*tail, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t, err := readTail(dir, starts, k.tails[dir])
	if err == nil {
		k.tails[dir] = t
	}
	return t, err
}
