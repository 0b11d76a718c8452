package gateway

import (
	"encoding/json"
	"slices"
	"sync"
	"time"
)

// Limits of the responses that a server keeps.
const (
	maxCached      = 10_000
	maxCachedBytes = 256 << 20
)

// responseCache keeps the responses of clients until their time has passed, or newer ones need their room. Then those of the
// client that has the most leave, the oldest first.
type responseCache struct {
	keeping time.Duration
	most    int // bytes
	now     func() time.Time

	mu      sync.Mutex
	clients map[string]*clientCache
	count   int
	bytes   int
}

// clientCache is the responses of a client.
type clientCache struct {
	whole *responseCache
	name  string

	all   map[string]cached // guarded by the mutex of whole, as all that follows
	order []string          // ids, the oldest first
	bytes int
}

// cached is a response that is kept until a time.
type cached struct {
	responded
	until time.Time
	bytes int
}

func newResponseCache(keeping time.Duration) *responseCache {
	return &responseCache{keeping: keeping, most: maxCachedBytes, now: time.Now, clients: map[string]*clientCache{}}
}

// of returns the responses of a client, which sees no others.
func (c *responseCache) of(client string) *clientCache {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clients[client] == nil {
		c.clients[client] = &clientCache{whole: c, name: client, all: map[string]cached{}}
	}
	return c.clients[client]
}

// keep implements keeper.
func (k *clientCache) keep(r responded) {
	data, _ := json.Marshal([]any{r.ResponsesReply, r.chat, r.items}) // texts, and what was read from JSON
	c := k.whole
	c.mu.Lock()
	defer c.mu.Unlock()
	k.all[r.ID] = cached{r, c.now().Add(c.keeping), len(data)}
	k.order, k.bytes = append(k.order, r.ID), k.bytes+len(data)
	c.count, c.bytes = c.count+1, c.bytes+len(data)
	c.drop()
}

// kept implements keeper.
func (k *clientCache) kept(id string) (response responded, known bool) {
	k.whole.mu.Lock()
	defer k.whole.mu.Unlock()
	k.whole.drop()
	of, known := k.all[id]
	return of.responded, known
}

// discard implements keeper.
func (k *clientCache) discard(id string) {
	k.whole.mu.Lock()
	defer k.whole.mu.Unlock()
	if i := slices.Index(k.order, id); i >= 0 {
		k.remove(i)
	}
}

// drop removes the oldest responses while they are too old or too many. The mutex is held.
func (c *responseCache) drop() {
	for _, k := range c.clients {
		for len(k.order) > 0 && !c.now().Before(k.all[k.order[0]].until) {
			k.dropOldest()
		}
	}
	for c.count > maxCached {
		c.largest(func(k *clientCache) int { return len(k.order) }).dropOldest()
	}
	for c.bytes > c.most {
		c.largest(func(k *clientCache) int { return k.bytes }).dropOldest()
	}
}

// largest returns the client that has the most.
func (c *responseCache) largest(size func(*clientCache) int) (most *clientCache) {
	for _, k := range c.clients {
		if most == nil || size(k) > size(most) {
			most = k
		}
	}
	return most
}

func (k *clientCache) dropOldest() { k.remove(0) }

// remove removes a response by its place in the order. The mutex is held.
func (k *clientCache) remove(i int) {
	id := k.order[i]
	bytes := k.all[id].bytes
	delete(k.all, id)
	k.order, k.bytes = slices.Delete(k.order, i, i+1), k.bytes-bytes
	k.whole.count--
	k.whole.bytes -= bytes
}
