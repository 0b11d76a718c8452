package tokenizer

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
)

const (
	cacheSlots   = 1 << 14
	cacheLongest = 48 // bytes; longer words rarely repeat
)

// wordCache caches the ids of recent words. A slot holds one word and a new word replaces it, so
// memory is bounded and the cache needs no lock.
type wordCache struct {
	seed  maphash.Seed
	slots [cacheSlots]atomic.Pointer[cachedWord]
}

type cachedWord struct {
	text string
	ids  []int32
}

func newWordCache() *wordCache { return &wordCache{seed: maphash.MakeSeed()} }

func (c *wordCache) slot(word string) *atomic.Pointer[cachedWord] {
	return &c.slots[maphash.String(c.seed, word)%cacheSlots]
}

// get returns the ids of word, which the caller must not change.
func (c *wordCache) get(word string) ([]int32, bool) {
	if w := c.slot(word).Load(); w != nil && w.text == word {
		return w.ids, true
	}
	return nil, false
}

func (c *wordCache) put(word string, ids []int32) {
	c.slot(word).Store(&cachedWord{strings.Clone(word), slices.Clone(ids)})
}
