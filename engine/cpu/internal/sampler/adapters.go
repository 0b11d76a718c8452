package sampler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/trinity-go/trinity"
)

// adapters are the adapters that requests may name.
type adapters struct {
	policy *adapter // for requests that name none
	base   *adapter // the model's own weights

	mu    sync.Mutex
	named map[string]*adapter // on mu
	roots int64               // on mu: number of roots given so far
}

func newAdapters() *adapters {
	return &adapters{
		policy: &adapter{root: -1}, base: &adapter{name: trinity.BaseAdapter, root: -2}, named: map[string]*adapter{}, roots: 2,
	}
}

// find returns the adapter that a request names.
func (a *adapters) find(name string) (*adapter, error) {
	switch name {
	case "":
		return a.policy, nil
	case trinity.BaseAdapter:
		return a.base, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if found, ok := a.named[name]; ok {
		return found, nil
	}
	return nil, a.unknown(name)
}

// findOrAdd returns the adapter of a name, or the policy's if name is "". If there is none, it adds
// one; it is an error if there are limit adapters already.
func (a *adapters) findOrAdd(name string, limit int) (*adapter, error) {
	if name == "" {
		return a.policy, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	found, ok := a.named[name]
	if ok {
		return found, nil
	}
	if n := len(a.named); n >= limit {
		return nil, fmt.Errorf("sampler: adapter %q: the sampler has %d adapters, which is the limit: drop one, or raise MaxAdapters", name, n)
	}
	a.roots++
	found = &adapter{name: name, root: -a.roots}
	a.named[name] = found
	return found, nil
}

// replant gives an adapter, or all adapters if only is nil, a root below which there is no page yet.
// The caller holds the sampler's gate.
func (a *adapters) replant(only *adapter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := []*adapter{only}
	if only == nil {
		all = append(slices.Collect(maps.Values(a.named)), a.policy, a.base)
	}
	for _, one := range all {
		a.roots++
		one.root = -a.roots
	}
}

// remove removes and returns the adapter of a name.
func (a *adapters) remove(name string) (*adapter, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	removed, ok := a.named[name]
	if !ok {
		return nil, a.unknown(name)
	}
	delete(a.named, name)
	return removed, nil
}

// names returns the names in alphabetical order.
func (a *adapters) names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.named))
}

// unknown returns the error for a name without an adapter. The caller holds mu.
func (a *adapters) unknown(name string) error {
	loaded := "none is loaded"
	if names := slices.Sorted(maps.Keys(a.named)); len(names) > 0 {
		loaded = "loaded are " + strings.Join(names, ", ")
	}
	return fmt.Errorf("sampler: %w %q; %s", trinity.ErrUnknownAdapter, name, loaded)
}
