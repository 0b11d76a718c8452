package served

import (
	"context"
	"slices"
	"sync"

	"github.com/trinity-go/trinity/internal/wire/openai"
)

// adapters are those that a sampler has given a server. The policy's before the newest stays for requests
// in flight.
type adapters struct {
	client *openai.Client
	drop   string                                            // endpoint that drops an adapter
	give   func(ctx context.Context, dir, name string) error // gives the server an adapter

	mu          sync.Mutex
	now, before string
	others      []string // that requests name
}

// replace gives the server the policy's adapter under a new name. It drops the adapter before the last,
// which no request in flight samples with.
func (a *adapters) replace(ctx context.Context, dir, name string) error {
	there, err := listed(ctx, a.client)
	if err != nil {
		return err
	}
	a.keepOnly(there)
	if slices.Contains(there, name) { // delivered again: the server refuses a name that it has
		a.withdraw(name)
		if err := a.unload(ctx, name); err != nil {
			return err
		}
	}
	if err := a.give(ctx, dir, name); err != nil {
		return err
	}
	if old := a.push(name); old != "" {
		return a.unload(ctx, old)
	}
	return nil
}

// hold gives the server an adapter beside the policy's, under a name that it does not have.
func (a *adapters) hold(ctx context.Context, dir, name string) error {
	if err := a.give(ctx, dir, name); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.others, name) {
		a.others = append(a.others, name)
	}
	return nil
}

// unload drops an adapter. One that the server does not list counts as dropped: a server that has
// restarted refuses its name.
func (a *adapters) unload(ctx context.Context, name string) error {
	a.mu.Lock()
	a.others = slices.DeleteFunc(a.others, func(other string) bool { return other == name })
	a.mu.Unlock()
	err := a.client.Call(ctx, a.drop, map[string]string{"lora_name": name}, nil)
	if statusOf(err) == 0 {
		return err
	}
	there, failed := listed(ctx, a.client)
	if failed == nil && !slices.Contains(there, name) {
		return nil
	}
	return err
}

// keepOnly forgets the adapters that the server has lost because it has restarted. The current one keeps
// its name, which the server refuses until it has a version again.
func (a *adapters) keepOnly(there []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.others = slices.DeleteFunc(a.others, func(other string) bool { return !slices.Contains(there, other) })
	if !slices.Contains(there, a.before) {
		a.before = ""
	}
}

// release drops all.
func (a *adapters) release(ctx context.Context) {
	for _, name := range a.all() {
		_ = a.unload(ctx, name) // the server may have gone
	}
}

// all returns the adapters that the server has.
func (a *adapters) all() (names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range append([]string{a.before, a.now}, a.others...) {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

// of returns the adapter that answers a query, "" for the model without any.
func (a *adapters) of(q *query) string {
	if q.adapter {
		return a.current()
	}
	return q.other
}

func (a *adapters) current() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now
}

// withdraw makes the adapter before the newest the current one again, if the newest has that name and
// there is one before it: without a name, requests would sample with the model alone.
func (a *adapters) withdraw(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if name == a.now && a.before != "" {
		a.now, a.before = a.before, ""
	}
}

// push makes an adapter the current one and returns the one to drop, "" if there is none.
func (a *adapters) push(name string) (drop string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if name != a.now { // else the server has it again
		drop, a.before, a.now = a.before, a.now, name
	}
	return drop
}
