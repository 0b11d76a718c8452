package studio

import (
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/trinity-go/trinity/monitor"
)

// known is what the list of runs keeps of a run until its files change.
type known struct {
	mu       sync.Mutex
	settings keptSettings
	tails    map[string]*tail // by monitor directory
	newest   map[string]*newest
}

// keptSettings are settings until their file changes.
type keptSettings struct {
	mu   sync.Mutex
	file [2]int64  // size and time of the file
	set  *settings // never changed once it is here
	err  error
}

// known returns what is kept of the run in a directory.
func (s *Server) known(dir string) *known {
	k, _ := s.runsKnown.LoadOrStore(dir, &known{tails: map[string]*tail{}, newest: map[string]*newest{}})
	return k.(*known)
}

func (k *keptSettings) of(dir string) (*settings, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	file := [2]int64{-1, 0}
	for _, d := range monitorDirs(dir) {
		if info, err := os.Lstat(filepath.Join(d, monitor.ConfigFile)); err == nil {
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

func (k *known) tail(dir string, starts []time.Time) (*tail, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t, err := readTail(dir, starts, k.tails[dir])
	if err == nil {
		k.tails[dir] = t
	}
	return t, err
}
