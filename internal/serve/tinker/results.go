package tinker

import (
	"container/list"
	"sync"
	"time"
)

// results are the answers to calls that are computed later, by their ids. Those in memory are bounded: beyond the bounds those
// go that were fetched, and then the oldest. Results of training are in the log, too, which has them from then on. Samples are gone.
type results struct {
	ofKey, ofAll int64 // most bytes
	mu           sync.Mutex
	all          map[string]*future
	keys         map[string]*keyResults
	bytes        int64 // of all keys
}

// keyResults are the results of a key.
type keyResults struct {
	logged           int // that a log has
	bytes            int64
	fetched, waiting list.List // of *future with a result in memory, the oldest first
}

// Bounds of the results in memory, in bytes. A future takes futureBytes beside its result. maxLogged bounds the results of a
// key that logs have.
const (
	maxResults      = 256 << 20
	maxResultsOfAll = 1 << 30
	futureBytes     = 1 << 10
	maxLogged       = 1 << 18
)

func newResults() *results {
	return &results{ofKey: maxResults, ofAll: maxResultsOfAll, all: map[string]*future{}, keys: map[string]*keyResults{}}
}

// key returns the results of a key. The mutex is held.
func (r *results) key(owner string) *keyResults {
	k := r.keys[owner]
	if k == nil {
		k = &keyResults{}
		r.keys[owner] = k
	}
	return k
}

// add adds a future, unless one with its id is known, which it returns.
func (r *results) add(f *future) (known *future) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known = r.all[f.id]; known == nil {
		f.in, r.all[f.id] = r, f
	}
	return known
}

// find returns a future; nil if there is none.
func (r *results) find(id string) *future {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[id]
}

// logged returns how many results of a key logs have.
func (r *results) logged(owner string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.key(owner).logged
}

// drop forgets a future.
func (r *results) drop(f *future) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(f)
}

// remove forgets a future. The mutex is held.
func (r *results) remove(f *future) {
	if r.all[f.id] != f {
		return
	}
	r.free(f)
	delete(r.all, f.id)
	if f.isDone() && f.stored != nil {
		r.key(f.owner).logged--
	}
}

// free takes the result of a future out of memory. The mutex is held.
func (r *results) free(f *future) {
	if f.place == nil {
		return
	}
	k := r.key(f.owner)
	k.fetched.Remove(f.place) // which does nothing if the other list has it
	k.waiting.Remove(f.place)
	k.bytes -= f.bytes
	r.bytes -= f.bytes
	f.place, f.result = nil, nil
}

// hold takes the result of a future into memory, if it has one, in place of others if there are too many.
func (r *results) hold(f *future) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(f.done)
	if r.all[f.id] != f {
		return
	}
	k := r.key(f.owner)
	if f.stored != nil {
		k.logged++
	}
	if f.result == nil {
		return
	}
	f.place = k.waiting.PushBack(f)
	k.bytes += f.bytes
	r.bytes += f.bytes
	for k.bytes > r.ofKey && r.shrink(k, f) {
	}
	for r.bytes > r.ofAll && r.shrink(r.largest(), f) {
	}
}

// largest returns the results of the key that has the most. The mutex is held.
func (r *results) largest() (most *keyResults) {
	for _, k := range r.keys {
		if most == nil || k.bytes > most.bytes {
			most = k
		}
	}
	return most
}

// shrink frees a result of a key but that of newest. It reports whether there was one. The mutex is held.
func (r *results) shrink(k *keyResults, newest *future) bool {
	first := k.fetched.Front()
	if first == nil {
		first = k.waiting.Front()
	}
	if first == nil || first.Value == newest {
		return false
	}
	f := first.Value.(*future)
	if r.free(f); f.stored == nil {
		r.remove(f)
	}
	return true
}

// fetch returns a result, for its client, that is in memory.
func (r *results) fetch(f *future) (result any, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.fetched = time.Now()
	if f.place == nil {
		return nil, false
	}
	k := r.key(f.owner)
	result = f.result
	k.waiting.Remove(f.place)
	k.fetched.Remove(f.place)
	f.place = k.fetched.PushBack(f)
	return result, true
}

// forget drops the results that were fetched an hour ago, and those that nobody has fetched for a day. Those that the log
// of a model has wait for their client as long as its session does.
func (r *results) forget(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.all {
		if !f.isDone() {
			continue
		}
		isKept := f.stored != nil && !f.session.hasEnded()
		if !f.fetched.IsZero() && now.Sub(f.fetched) > kept || now.Sub(f.at) > unfetched && !isKept {
			r.remove(f)
		}
	}
}

// state reports whether a future is there, and whether its client has the result.
func (r *results) state(id string) (isThere, isFetched bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.all[id]
	return f != nil, f != nil && !f.fetched.IsZero()
}
