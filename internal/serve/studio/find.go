package studio

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity/internal/rundir"
)

const (
	// whole is the ID of the directory that the studio serves, if it is a run itself. A browser takes
	// "." out of an address.
	whole    = "~"
	maxDepth = 8 // of a run below the studio's directory
)

// runs finds the runs below the studio's directory, and keeps what the studio knows of them.
type runs struct {
	dir    string
	files  *cache // their metrics
	finder finder
	known  sync.Map // *runFiles by directory
}

// root returns the studio's directory without links.
func (s *runs) root() (string, error) {
	dir, err := filepath.EvalSymlinks(s.dir)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	return dir, err
}

// finder finds runs below a directory. It keeps what it has seen of a directory until that changes.
type finder struct {
	mu           sync.Mutex
	root         string
	dirs         map[string]*dirState
	ids, damaged []string
	again        time.Time // before which it does not look again, because that takes long
}

// dirState is what is known of a directory.
type dirState struct {
	modified time.Time
	isSure   bool     // the time would tell a change
	isRun    bool     // it has a run's files
	below    []string // names of the directories that may have runs
}

// settled is how long a directory must have been as it is for its time to tell a change: file systems
// have coarse clocks.
const settled = 3 * time.Second

// find returns the IDs of all runs below a directory, and lines about what cannot be read. It follows
// no links. Of a directory with very many others the answer may be some seconds old.
func (f *finder) find(root string) (ids, damaged []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if begin := time.Now(); f.root != root || begin.After(f.again) {
		if f.root != root {
			f.dirs = nil
		}
		before := f.dirs
		f.root, f.dirs, f.ids, f.damaged = root, map[string]*dirState{}, nil, nil
		f.visit(before, root, "", 0)
		f.again = time.Now().Add(patient * time.Since(begin))
	}
	return slices.Clone(f.ids), slices.Clone(f.damaged)
}

// visit looks at a directory and those below it.
func (f *finder) visit(before map[string]*dirState, dir, id string, depth int) {
	info, err := os.Lstat(dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			f.damaged = append(f.damaged, err.Error())
		}
		return
	}
	known := before[dir]
	if known == nil || !known.isSure || !known.modified.Equal(info.ModTime()) {
		if known, err = readSeen(dir, info); err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.damaged = append(f.damaged, err.Error())
		}
	}
	f.dirs[dir] = known
	if depth < maxDepth {
		for _, name := range known.below {
			f.visit(before, filepath.Join(dir, name), strings.TrimPrefix(id+"/"+name, "/"), depth+1)
		}
	}
	if known.isRun {
		f.ids = append(f.ids, cmp.Or(id, whole))
	}
}

// readSeen reads a directory.
func readSeen(dir string, info fs.FileInfo) (*dirState, error) {
	s := &dirState{modified: info.ModTime(), isSure: time.Since(info.ModTime()) > settled}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		name := e.Name()
		switch {
		case !e.IsDir():
		case name == rundir.Monitor || name == rundir.Traces:
			s.isRun = true
		case strings.HasPrefix(name, rundir.StepPrefix) || name == rundir.Buffer || name == rundir.Logs || strings.HasPrefix(name, "."):
		default:
			s.below = append(s.below, name)
		}
	}
	s.isSure = s.isSure && err == nil
	return s, err
}

// of answers requests that name a run.
func (s *runs) of(reply func(r *http.Request, f *runFiles) (any, error)) answer {
	return func(r *http.Request) (any, error) {
		f, err := s.open(r.PathValue("run"))
		if err != nil {
			return nil, err
		}
		return reply(r, f)
	}
}

// dirIn returns the directory of a run below root.
func dirIn(root, id string) string {
	if id == whole {
		return root
	}
	return filepath.Join(root, filepath.FromSlash(id))
}

// open returns the files of a run. The ID of a run is its path below the studio's directory, with
// slashes; neither .. nor a link leads out of it.
func (s *runs) open(id string) (*runFiles, error) {
	none := notFound{fmt.Errorf("there is no run %.200q", id)}
	root, err := s.root()
	if err != nil {
		return nil, err
	}
	if !isID(id) {
		return nil, none
	}
	dir := dirIn(root, id)
	if real, err := filepath.EvalSymlinks(dir); err != nil || real != dir {
		return nil, none
	}
	if !isDir(filepath.Join(dir, rundir.Monitor)) && !isDir(filepath.Join(dir, rundir.Traces)) {
		return nil, none
	}
	return s.at(dir, id), nil
}

// isOwnFile reports whether a file below a run is its own: a regular file that no link leads to, and no pipe, which
// would never end.
func isOwnFile(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || real != path {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// isID reports whether a text may be the ID of a run.
func isID(id string) bool {
	return filepath.IsLocal(filepath.FromSlash(id)) && !strings.ContainsAny(id, "\\\x00") && path.Clean(id) == id && id != "."
}

// isDir reports whether a path is a directory and no link.
func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// traces returns the directory of the traces of a run. A link in it, which could lead anywhere, is an
// error.
func (f *runFiles) traces() (string, error) {
	dir := filepath.Join(f.dir, rundir.Traces)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return dir, nil
	}
	if err == nil && !isDir(dir) {
		err = fmt.Errorf("%s is no directory", dir)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() && !e.IsDir() {
			err = fmt.Errorf("%s is no regular file", filepath.Join(dir, e.Name()))
		}
	}
	return dir, err
}
