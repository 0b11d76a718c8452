package served

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
)

// holder is an endpoint whose server holds adapters.
type holder interface{ held() *adapters }

var _ engine.AdapterLoader = (*sampler)(nil)

// others are the adapters that requests name. Each server has them before it has the policy, so a server
// that has restarted is known by the policy that it lacks.
type others struct {
	servers *servers

	mu    sync.Mutex
	named map[string]other
	given int // adapters so far
}

// other is one of these adapters.
type other struct {
	dir     string
	name    string // on the servers
	version int64
}

// LoadAdapter implements engine.AdapterLoader. A server that sleeps gets the adapter when the next
// version of the policy wakes it.
func (s *sampler) LoadAdapter(ctx context.Context, name, dir string, version int64) error {
	l, o := &s.loader, &s.loader.others
	switch {
	case l.mayLoad != nil:
		return l.mayLoad
	case name == "" || name == trinity.BaseAdapter:
		return fmt.Errorf("an adapter cannot be called %q", name)
	case !s.pool.servers.adapter:
		return errors.New("the servers are those of a run without adapters")
	}
	dir, err := filepath.Abs(dir) // the servers have other working directories
	if err != nil {
		return err
	}
	if err := l.files(dir); err != nil {
		return err
	}
	l.loading.Lock()
	defer l.loading.Unlock()
	limited, cancel := l.limitLoad(ctx)
	defer cancel()
	old, replaces := o.find(name)
	now := o.put(name, dir, version)
	for _, target := range o.awake() {
		if err := o.lend(limited, target, now); err != nil {
			o.undo(name, old, replaces)
			return err
		}
	}
	if replaces {
		return o.dropFromAll(limited, old)
	}
	return nil
}

// undo gives a name back what it stood for before an adapter that a server has not taken.
func (o *others) undo(name string, old other, was bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if was {
		o.named[name] = old
	} else {
		delete(o.named, name)
	}
}

// DropAdapter implements engine.AdapterLoader.
func (s *sampler) DropAdapter(ctx context.Context, name string) error {
	o := &s.loader.others
	old, ok := o.find(name)
	if !ok {
		return fmt.Errorf("%w %q on the servers", trinity.ErrUnknownAdapter, name)
	}
	o.mu.Lock()
	delete(o.named, name)
	o.mu.Unlock()
	limited, cancel := s.loader.limitLoad(ctx)
	defer cancel()
	return o.dropFromAll(limited, old)
}

// names returns the adapters' names in requests.
func (o *others) names() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.named))
}

func (o *others) find(name string) (other, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	a, ok := o.named[name]
	return a, ok
}

// put notes an adapter under a name that no server has.
func (o *others) put(name, dir string, version int64) other {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.named == nil {
		o.named = map[string]other{}
	}
	o.given++
	a := other{dir: dir, name: o.servers.mark + "-adapter-" + strconv.Itoa(o.given), version: version}
	o.named[name] = a
	return a
}

// awake returns the servers that do not sleep.
func (o *others) awake() []*server {
	return slices.DeleteFunc(slices.Clone(o.servers.all), func(s *server) bool { return len(o.servers.asleep(s)) > 0 })
}

// lend gives a server an adapter.
func (*others) lend(ctx context.Context, s *server, a other) error {
	h, ok := s.endpoint.(holder)
	if !ok {
		return fmt.Errorf("%s holds no adapters beside the policy", s.name())
	}
	if err := h.held().hold(ctx, a.dir, a.name); err != nil {
		return fmt.Errorf("%s: loading the adapter from %s: %w", s.name(), a.dir, err)
	}
	return nil
}

// complete gives a server the adapters that it lacks, because it slept or has restarted, and returns how many.
func (o *others) complete(ctx context.Context, s *server) (given int, err error) {
	for _, name := range o.names() {
		a, ok := o.find(name)
		if !ok { // it was dropped meanwhile
			continue
		}
		has, err := s.has(ctx, a.name)
		if err == nil && !has {
			err = o.lend(ctx, s, a)
			given++
		}
		if err != nil {
			return given, err
		}
	}
	return given, nil
}

// dropFromAll drops an adapter from the servers that do not sleep. One that does not answer has lost it, or keeps what
// nobody names.
func (o *others) dropFromAll(ctx context.Context, old other) error {
	for _, s := range o.awake() {
		if err := s.endpoint.(holder).held().unload(ctx, old.name); err != nil && !isGone(err) {
			return fmt.Errorf("%s: dropping the adapter from %s: %w", s.name(), old.dir, err)
		}
	}
	return nil
}
