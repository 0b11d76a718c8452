package tinker

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
)

// disk counts the bytes that keys have on the disk: checkpoints, and the journals of models.
type disk struct {
	mu          sync.Mutex
	checkpoints map[string]int64 // by key; nil after a change
	journals    map[*journal]string
}

// changed says that there are other checkpoints than before.
func (d *disk) changed() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.checkpoints = nil
}

// begin counts the journal of a model of a key until it ends.
func (d *disk) begin(j *journal, owner string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.journals == nil {
		d.journals = map[*journal]string{}
	}
	d.journals[j] = owner
}

func (d *disk) end(j *journal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.journals, j)
}

// used returns the bytes of a key's checkpoints, and of its journals.
func (s *store) used(owner string) (checkpoints, journals int64) {
	d := &s.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.checkpoints == nil {
		d.checkpoints = map[string]int64{}
		for _, c := range s.all() {
			d.checkpoints[c.Owner] += c.Bytes
		}
	}
	for j, of := range d.journals {
		if of == owner {
			journals += j.size.Load()
		}
	}
	return d.checkpoints[owner], journals
}

// fullError says that a key has no room on the disk.
type fullError struct{ text string }

func (e *fullError) Error() string { return e.text }

// fits returns an error if a key may not have so many bytes more on the disk.
func (s *store) fits(owner string, more int64) error {
	limit := s.limits(owner).Disk
	if limit == 0 {
		return nil
	}
	checkpoints, journals := s.used(owner)
	if checkpoints+journals+more <= limit {
		return nil
	}
	return &fullError{fmt.Sprintf(
		"the disk of the key %s is full: it has %s of checkpoints and %s of models in sessions, this would add %s, and it may have %s: "+
			"delete checkpoints, end sessions, or save with ttl_seconds",
		owner, config.Size(checkpoints), config.Size(journals), config.Size(more), config.Size(limit))}
}

// DiskUsed returns the bytes that each key has on the disk of a service: checkpoints, and models in sessions.
func DiskUsed(dir string) map[string]int64 {
	s := newStore(dir, nil)
	used := map[string]int64{}
	for _, c := range s.all() {
		used[c.Owner] += c.Bytes
	}
	for _, session := range within(s.sessionDir(""), "") {
		var kept keptSession
		if err := readKept(filepath.Join(session, sessionName), &kept); err != nil {
			continue // it has ended
		}
		for _, model := range within(session, trainPrefix) {
			size, _ := durable.Size(model) // what goes meanwhile does not count
			used[kept.Owner] += size
		}
	}
	return used
}

// locks lets one at a time change a directory.
type locks struct {
	mu  sync.Mutex
	all map[string]*lock
}

type lock struct {
	sync.Mutex
	users int
}

// take waits for directories, and returns what frees them.
func (l *locks) take(dirs ...string) (free func()) {
	slices.Sort(dirs) // who wants several waits for nobody who waits for it
	dirs = slices.Compact(dirs)
	for _, dir := range dirs {
		l.mu.Lock()
		if l.all == nil {
			l.all = map[string]*lock{}
		}
		if l.all[dir] == nil {
			l.all[dir] = &lock{}
		}
		x := l.all[dir]
		x.users++
		l.mu.Unlock()
		x.Lock()
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, dir := range dirs {
			l.all[dir].Unlock()
			l.all[dir].users--
		}
		maps.DeleteFunc(l.all, func(_ string, x *lock) bool { return x.users == 0 })
	}
}
