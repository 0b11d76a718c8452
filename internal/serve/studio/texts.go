package studio

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/trinity-go/trinity/internal/trace"
)

// textsKept is how many traces' texts of tokens stay in memory.
const textsKept = 4

// textCache has the texts of tokens of the traces that were asked for last.
type textCache struct {
	mu    sync.Mutex
	order []string
	known map[string]texts
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
	if known, ok := c.known[dir]; ok && known.size == info.Size() {
		return known.of, nil
	}
	of, err := trace.ReadTexts(dir)
	if err != nil {
		return nil, err
	}
	if c.known == nil {
		c.known = map[string]texts{}
	}
	if _, ok := c.known[dir]; !ok {
		if c.order = append(c.order, dir); len(c.order) > textsKept {
			delete(c.known, c.order[0])
			c.order = c.order[1:]
		}
	}
	c.known[dir] = texts{info.Size(), of}
	return of, nil
}
