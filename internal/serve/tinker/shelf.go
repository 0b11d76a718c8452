package tinker

import (
	"context"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
)

// shelf keeps the adapters of a sampler: the most recently used ones are loaded.
type shelf struct {
	loader engine.AdapterLoader
	freed  chan struct{} // gets an element when an adapter is no longer used

	mu     sync.Mutex
	all    map[string]*adapter
	loaded int
	last   int64 // version that was loaded last
}

// adapter is a directory that a sampler loads.
type adapter struct {
	name, dir string
	isLoaded  bool
	users     int
	used      time.Time
}

// maxLoaded is how many adapters the embedded sampler holds.
const maxLoaded = 64

// add names a directory.
func (s *shelf) add(name, dir string) *adapter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[name] == nil {
		s.all[name] = &adapter{name: name, dir: dir}
	}
	return s.all[name]
}

// use loads an adapter, in place of one that was not used for the longest time if there is no room, and waits while all
// are in use. The caller calls leave when it has sampled. nil is the base.
func (s *shelf) use(ctx context.Context, a *adapter) (name string, leave func(), err error) {
	if a == nil {
		return trinity.BaseAdapter, func() {}, nil
	}
	for {
		isLoaded, err := s.load(ctx, a)
		if err != nil {
			return "", nil, err
		}
		if isLoaded {
			return a.name, func() { s.leave(a) }, nil
		}
		select {
		case <-s.freed:
		case <-ctx.Done():
			return "", nil, context.Cause(ctx)
		}
	}
}

func (s *shelf) leave(a *adapter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.users--
	a.used = time.Now()
	select {
	case s.freed <- struct{}{}:
	default:
	}
}

// load loads an adapter and uses it. It returns false if all others are in use.
func (s *shelf) load(ctx context.Context, a *adapter) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.isLoaded {
		a.users++
		return true, nil
	}
	if s.loaded == maxLoaded {
		var oldest *adapter
		for _, other := range s.all {
			if other.isLoaded && other.users == 0 && (oldest == nil || other.used.Before(oldest.used)) {
				oldest = other
			}
		}
		if oldest == nil {
			return false, nil
		}
		if err := s.loader.DropAdapter(ctx, oldest.name); err != nil {
			return false, &ownError{err}
		}
		oldest.isLoaded = false
		s.loaded--
	}
	s.last++
	if err := s.loader.LoadAdapter(ctx, a.name, a.dir, s.last); err != nil {
		return false, &ownError{err}
	}
	a.isLoaded = true
	a.users++
	s.loaded++
	return true, nil
}
