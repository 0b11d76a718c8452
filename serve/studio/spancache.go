package studio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
)

// spanCache has the spans of the trace that was asked for last.
type spanCache struct {
	mu    sync.Mutex
	dir   string
	files string    // names and sizes
	again time.Time // before which it is not read again, because that takes long
	known *spans
}

// patient is how many times longer than a read the pause after it is.
const patient = 10

// read returns the spans of a trace. Those of a large trace may be some seconds old.
func (c *spanCache) read(dir string) (*spans, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	files, err := filesOf(dir)
	if err != nil {
		return nil, err
	}
	if c.dir == dir && (c.files == files || time.Now().Before(c.again)) {
		return c.known, nil
	}
	begin := time.Now()
	c.dir, c.files, c.known = dir, files, nil // the old ones may go while others are read
	c.known = readSpans(dir)
	c.again = time.Now().Add(patient * time.Since(begin))
	return c.known, nil
}

// filesOf returns the names and sizes of a trace's files.
func filesOf(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var all strings.Builder
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || e.IsDir() {
			continue
		}
		fmt.Fprintln(&all, e.Name(), info.Size())
	}
	return all.String(), nil
}
