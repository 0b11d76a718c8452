package studio

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/trinity-go/trinity/internal/rundir"
)

// runFiles are the files of a run, with what the studio keeps of them until they change.
type runFiles struct {
	id, dir string
	files   *cache // the metrics of all runs

	setting sync.Mutex // guards the next three
	set     *settings  // never changed once it is here
	setErr  error
	setFile [2]int64 // size and time of the file of settings

	mu     sync.Mutex       // guards the rest, and is held while a large file is read
	tails  map[string]*tail // by monitor directory
	newest map[string]*newest
	evals  map[string]evaluated
	said   map[string]messages
}

// at returns the files of the run in a directory.
func (s *runs) at(dir, id string) *runFiles {
	f, _ := s.known.LoadOrStore(dir, &runFiles{
		id: id, dir: dir, files: s.files, tails: map[string]*tail{}, newest: map[string]*newest{}, evals: map[string]evaluated{},
		said: map[string]messages{},
	})
	return f.(*runFiles)
}

// forget drops what is kept of runs that are no longer there; ids are all that are.
func (s *runs) forget(root string, ids []string) {
	there := map[string]bool{}
	for _, id := range ids {
		there[dirIn(root, id)] = true
	}
	s.known.Range(func(dir, _ any) bool {
		if !there[dir.(string)] && !exists(dir.(string)) {
			s.known.Delete(dir)
		}
		return true
	})
}

// settingsIn returns the monitor directory that has the settings of the run; "" if none has.
func (f *runFiles) settingsIn() (dir string, info os.FileInfo) {
	for _, d := range rundir.Monitors(f.dir) {
		if info, err := os.Lstat(filepath.Join(d, rundir.SettingsFile)); err == nil {
			return d, info
		}
	}
	return "", nil
}

// settings returns the settings of the run; without a file there are none.
func (f *runFiles) settings() (*settings, error) {
	f.setting.Lock()
	defer f.setting.Unlock()
	dir, info := f.settingsIn()
	file := [2]int64{-1, 0}
	if info != nil {
		file = [2]int64{info.Size(), info.ModTime().UnixNano()}
	}
	if f.set != nil && f.setFile == file {
		return f.set, f.setErr
	}
	f.set, f.setErr, f.setFile = &settings{flat: map[string]any{}}, nil, file
	if info == nil {
		return f.set, nil
	}
	text, err := rundir.ReadSettings(dir)
	if err == nil {
		*f.set, err = parseSettings(text)
	}
	if err != nil {
		f.setErr = fmt.Errorf("%s: %w", filepath.Join(dir, rundir.SettingsFile), err)
	}
	return f.set, f.setErr
}

func (f *runFiles) tail(dir string, starts []time.Time) (*tail, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, err := readTail(dir, starts, f.tails[dir])
	if err == nil {
		f.tails[dir] = t
	}
	return t, err
}
