package constraint

import (
	"container/list"
	"sync"
)

// Bounds of what a vocabulary keeps.
const (
	maxGrammars = 32
	maxKept     = 256 << 20 // bytes
)

// nodeSize is about what a node takes, with its places in maps.
const nodeSize = 150

// size returns about how many bytes a grammar takes.
func (g *grammar) size() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.masks
	n := nodeSize*len(m.g.nodes) + 4*256*len(m.g.rows) + 8*m.words*(len(m.of)+len(m.spare)+len(m.inners))
	for _, in := range m.inners {
		n += 8 * (len(in.exits) + len(in.long))
	}
	return n
}

// cache keeps the grammars that were asked for last.
type cache struct {
	mu    sync.Mutex
	of    map[string]*list.Element
	order list.List // of *cached, the newest in front
}

type cached struct {
	key string
	g   *grammar
}

// get returns a grammar, nil if it is not kept. One that has grown large, or has failed, is not kept.
func (c *cache) get(key string) *grammar {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.of[key]
	if e == nil {
		return nil
	}
	g := e.Value.(*cached).g
	g.mu.Lock()
	large := len(g.masks.g.nodes) > maxNodes/2 || g.failed
	g.mu.Unlock()
	if large {
		c.drop(e)
		return nil
	}
	c.order.MoveToFront(e)
	return g
}

func (c *cache) put(key string, g *grammar) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]*list.Element{}
	}
	if e := c.of[key]; e != nil {
		c.drop(e)
	}
	if len(c.of) >= maxGrammars {
		c.drop(c.order.Back())
	}
	c.of[key] = c.order.PushFront(&cached{key, g})
}

// trim drops the grammars that were asked for longest ago, until all take at most so many bytes. The newest stays.
// Grammars grow with the replies that use them, so it is called for each of them.
func (c *cache) trim(most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.order.Front(); e != nil; {
		next := e.Next()
		of := e.Value.(*cached)
		if most -= len(of.key) + of.g.size(); most < 0 && e != c.order.Front() {
			c.drop(e)
		}
		e = next
	}
}

func (c *cache) drop(e *list.Element) {
	delete(c.of, e.Value.(*cached).key)
	c.order.Remove(e)
}
