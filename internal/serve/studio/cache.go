package studio

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/trinity-go/trinity/internal/cachedir"
	"github.com/trinity-go/trinity/internal/rundir"
)

// cache keeps columns of the runs' metrics in memory. When they are too many, it drops the file that was
// used the longest time ago.
type cache struct {
	disk    *cachedir.Dir
	mu      sync.Mutex
	entries map[string]*entry // by directory
	uses    int64
	reads   chan struct{} // one for each file that may be read at once
}

// entry is a metrics.jsonl in memory.
type entry struct {
	mu      sync.Mutex // held while the columns are read
	columns *rundir.File
	used    int64
	bytes   atomic.Int64
}

// maxBytes bounds the memory of all columns: four curves of a hundred runs of 10,000 steps. A page that
// shows more reads them again each time.
const maxBytes = 96 << 20

func newCache(disk *cachedir.Dir) *cache {
	return &cache{disk: disk, entries: map[string]*entry{}, reads: make(chan struct{}, runtime.GOMAXPROCS(0))}
}

// update brings the columns of a directory up to date and returns them. has reports whether the file
// still has what was before a mark. damage is an error about a line that is no record.
func (c *cache) update(dir string, wanted func(string) bool, since rundir.Mark) (
	t rundir.Table, has bool, damage, err error,
) {
	e := c.entry(dir)
	e.mu.Lock()
	defer e.mu.Unlock()
	c.reads <- struct{}{}
	defer func() { <-c.reads }()
	has, err = e.columns.Update(wanted, since)
	e.bytes.Store(int64(e.columns.Size()))
	return e.columns.Table(), has, e.columns.Damage(), err
}

// entry returns the file of a directory.
func (c *cache) entry(dir string) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[dir]
	if e == nil {
		e = &entry{columns: rundir.NewFile(dir, c.disk)}
		c.entries[dir] = e
	}
	c.uses++
	e.used = c.uses
	return e
}

// trim forgets the files that were used least, until the others fit.
func (c *cache) trim() {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := int64(0)
	var dirs []string
	for dir, e := range c.entries {
		sum += e.bytes.Load()
		dirs = append(dirs, dir)
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(c.entries[a].used, c.entries[b].used) })
	for _, dir := range dirs[:max(0, len(dirs)-1)] {
		if sum <= maxBytes {
			return
		}
		sum -= c.entries[dir].bytes.Load()
		delete(c.entries, dir)
	}
}
