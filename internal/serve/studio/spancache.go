package studio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity/internal/cachedir"
	"github.com/trinity-go/trinity/internal/trace"
)

// spanCache has the spans of the trace that was asked for last.
type spanCache struct {
	disk *cachedir.Dir

	mu    sync.Mutex
	dir   string
	files string    // names, sizes and times
	again time.Time // before which it is not read again, because that takes long
	known *spans
	table *trace.Table

	kept    int64          // bytes of the trace's files that the disk has as spans
	keeping sync.WaitGroup // writes to the disk
}

const (
	patient  = 10        // times the time of a read is the pause after it
	keepFrom = 256 << 10 // bytes of a trace that are worth keeping as spans
)

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
	disk := c.disk
	if disk.IsBelow(filepath.Dir(dir)) { // nothing is written into a run's directory
		disk = nil
	}
	if c.dir != dir {
		c.known = nil // the old ones may go while others are read
		c.table = trace.LoadTable(disk, dir)
		c.kept = c.table.Size()
	}
	c.dir, c.files = dir, files
	isNew, damaged, err := c.table.Update(dir)
	if err != nil {
		c.dir = "" // and so it is read again
		return nil, err
	}
	if isNew || c.known == nil {
		c.known = spansOf(c.table.Words, c.table.Spans())
		c.known.damaged = damaged
	}
	c.again = time.Now().Add(patient * time.Since(begin))
	if size := c.table.Size(); disk != nil && size-c.kept >= keepFrom {
		c.kept = size
		c.keeping.Go(func() { c.keep(disk, dir) })
	}
	return c.known, nil
}

// keep writes the spans to the disk for the next start.
func (c *spanCache) keep(disk *cachedir.Dir, dir string) {
	c.mu.Lock()
	if c.dir != dir {
		c.mu.Unlock()
		return
	}
	write := c.table.Keep(disk, dir)
	c.mu.Unlock()
	_ = write() // without it the trace is read again
}

// filesOf returns the names, sizes and times of a trace's files.
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
		fmt.Fprintln(&all, e.Name(), info.Size(), info.ModTime().UnixNano())
	}
	return all.String(), nil
}
