package studio

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/trinity-go/trinity/internal/trace"
)

// textsKept is how many traces' texts of tokens stay in memory.
const textsKept = 4

// textCache has the texts of tokens of the traces that were asked for last.
type textCache struct {
	mu    sync.Mutex
	known recent[texts]
}

// recent has what was read of the directories that were asked for last.
type recent[T any] struct {
	order []string
	of    map[string]T
}

// keep keeps what was read of a directory, and forgets the oldest beyond a number of directories.
func (r *recent[T]) keep(dir string, what T, most int) {
	if r.of == nil {
		r.of = map[string]T{}
	}
	if r.order = append(slices.DeleteFunc(r.order, func(d string) bool { return d == dir }), dir); len(r.order) > most {
		delete(r.of, r.order[0])
		r.order = r.order[1:]
	}
	r.of[dir] = what
}

type texts struct {
	size int64
	of   map[int32]string
}

// texts returns the texts of the tokens of a trace. The file only grows.
func (s *Server) texts(dir string) (map[int32]string, error) {
	c := &s.traces.texts
	c.mu.Lock()
	defer c.mu.Unlock()
	path := filepath.Join(dir, trace.TextsFile)
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	if known, ok := c.known.of[dir]; ok && known.size == info.Size() {
		return known.of, nil
	}
	of, err := trace.ReadTexts(dir)
	if err != nil {
		return nil, err
	}
	c.known.keep(dir, texts{info.Size(), of}, textsKept)
	return of, nil
}
