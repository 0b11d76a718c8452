package tinker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// shelf keeps the adapters of a sampler: the most recently used ones are loaded.
type shelf struct {
	loader engine.AdapterLoader
	stays  time.Duration // for which an adapter with a name stays that nobody uses

	mu     sync.Mutex
	freed  chan struct{} // closed and replaced when there may be room
	all    map[string]*adapter
	loaded int
	last   int64 // version that was loaded last
}

// adapter is a directory that a sampler loads, as its name says when it was written.
type adapter struct {
	name, dir string
	path      tinker.Path
	isLoaded  bool
	users     int
	sessions  int // that sample from it
	used      time.Time
}

// maxLoaded is how many adapters the embedded sampler holds. maxIdle bounds those that nobody samples from: a loop begins a
// session each step, and 64 adapters of rank 32 take gigabytes.
const maxLoaded, maxIdle = 64, 16

// isThere returns an error if the directory holds another checkpoint by now, or none.
func (a *adapter) isThere() error {
	if a.path == (tinker.Path{}) { // of a model that somebody else has made, who does not overwrite it
		return nil
	}
	now, err := readCheckpoint(a.path, a.dir)
	if err != nil {
		return err
	}
	if now.key() != a.name {
		return gone("%s has been overwritten since this sampling session began: begin another one", a.path)
	}
	return nil
}

// hasName reports whether clients may ask for the adapter without a session, so that it stays for a while.
func (a *adapter) hasName() bool { return a.path.Kind != ofSessions }

// add returns the adapter of a checkpoint, for one session more.
func (s *shelf) add(c *checkpoint) *adapter { return s.put(c.key(), c.dir, c.path) }

// put returns the adapter of a name, for one session more.
func (s *shelf) put(name, dir string, path tinker.Path) *adapter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[name] == nil {
		s.all[name] = &adapter{name: name, dir: dir, path: path}
	}
	s.all[name].sessions++
	return s.all[name]
}

// drop says that a session no longer samples from an adapter.
func (s *shelf) drop(ctx context.Context, a *adapter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.sessions--; a.sessions == 0 {
		s.release(ctx, a)
	}
}

// release forgets an adapter that nobody uses or will use. The mutex is held.
func (s *shelf) release(ctx context.Context, a *adapter) {
	if a.sessions > 0 || a.users > 0 || a.hasName() && a.isLoaded && time.Since(a.used) < s.stays {
		return
	}
	delete(s.all, a.name)
	if a.isLoaded {
		_ = s.unload(ctx, a)
	}
	close(s.freed)
	s.freed = make(chan struct{})
}

// sweep forgets the adapters with names that nobody has used for a while.
func (s *shelf) sweep(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.all {
		s.release(ctx, a)
	}
}

// use loads an adapter, in place of one that was not used for the longest time if there is no room, and waits while all
// are in use. The caller calls leave when it has sampled. nil is the base.
func (s *shelf) use(ctx context.Context, a *adapter) (name string, leave func(), err error) {
	if a == nil {
		return trinity.BaseAdapter, func() {}, nil
	}
	for {
		freed, err := s.load(ctx, a)
		if err != nil {
			return "", nil, err
		}
		if freed == nil {
			return a.name, func() { s.leave(ctx, a) }, nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return "", nil, context.Cause(ctx)
		}
	}
}

func (s *shelf) leave(ctx context.Context, a *adapter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.users--
	a.used = time.Now()
	close(s.freed)
	s.freed = make(chan struct{})
	ctx = context.WithoutCancel(ctx)
	s.release(ctx, a)
	if oldest, n := s.idle(); n > maxIdle {
		_ = s.unload(ctx, oldest)
	}
}

// idle returns how many adapters are loaded that nobody uses, and the one that was not used for the longest time. The mutex is held.
func (s *shelf) idle() (oldest *adapter, n int) {
	for _, a := range s.all {
		if !a.isLoaded || a.users > 0 {
			continue
		}
		n++
		if oldest == nil || a.used.Before(oldest.used) {
			oldest = a
		}
	}
	return oldest, n
}

// unload takes an adapter out of the sampler. The mutex is held.
func (s *shelf) unload(ctx context.Context, a *adapter) error {
	if err := s.loader.DropAdapter(ctx, a.name); err != nil {
		return err
	}
	a.isLoaded = false
	s.loaded--
	if a.sessions == 0 {
		delete(s.all, a.name)
	}
	return nil
}

// load loads an adapter and counts its caller as a user. If all others are in use, it returns a channel that is closed
// when there may be room.
func (s *shelf) load(ctx context.Context, a *adapter) (freed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.isLoaded {
		a.users++
		return nil, nil
	}
	if s.loaded == maxLoaded {
		oldest, _ := s.idle()
		if oldest == nil {
			return s.freed, nil
		}
		if err := s.unload(ctx, oldest); err != nil {
			return nil, &ownError{err}
		}
	}
	if err := a.isThere(); err != nil {
		return nil, err
	}
	s.last++
	if err := s.loader.LoadAdapter(ctx, a.name, a.dir, s.last); err != nil {
		return nil, &ownError{err}
	}
	if err := a.isThere(); err != nil { // it was overwritten while it was read
		return nil, errors.Join(err, s.loader.DropAdapter(ctx, a.name))
	}
	a.isLoaded = true
	a.users++
	s.loaded++
	return nil, nil
}
