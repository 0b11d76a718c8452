package buffer

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/trinity-go/trinity"
)

// item is a group, or a part of one.
type item struct {
	record   int64 // of the log
	from, to int   // its experiences there
	size     int   // rollouts or experiences, whichever Take counts
	version  int64
	uses     int
	priority float64
	exps     []*trinity.Experience // nil if they are only in the log
}

// items returns the groups of a record.
func (r *Replay) items(record int64, exps []*trinity.Experience) []*item {
	var out []*item
	from := 0
	for i := range exps {
		last := i+1 == len(exps)
		if !last && exps[i].ID.Task == exps[i+1].ID.Task && exps[i].ID.Step == exps[i+1].ID.Step {
			continue
		}
		it := &item{record: record, from: from, to: i + 1, exps: slices.Clone(exps[from : i+1]), version: math.MinInt64}
		it.size = r.count(it.exps)
		for _, e := range it.exps {
			it.version = max(it.version, e.Versions[0])
		}
		out = append(out, it)
		from = i + 1
	}
	return out
}

// noise returns a number from N(0, 1): ChaCha8 of seed, place and uses.
func (it *item) noise(seed int64) float64 {
	var key [32]byte
	for i, v := range []int64{seed, it.record, int64(it.from), int64(it.uses)} {
		binary.LittleEndian.PutUint64(key[8*i:], uint64(v))
	}
	return rand.New(rand.NewChaCha8(key)).NormFloat64()
}

// ranking sorts groups from the lowest to the highest priority, and equal ones from the oldest to
// the newest. Of equal ones, first still returns the oldest.
type ranking struct {
	items []*item
	size  int // sum of the sizes
}

func byPriority(a, b *item) int {
	return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.record, b.record), cmp.Compare(a.from, b.from))
}

func (k *ranking) insert(it *item) {
	at, _ := slices.BinarySearchFunc(k.items, it, byPriority)
	k.items = slices.Insert(k.items, at, it)
	k.size += it.size
}

func (k *ranking) remove(i int) {
	k.size -= k.items[i].size
	k.items = slices.Delete(k.items, i, i+1)
}

// first returns the index of the oldest group with the highest priority; -1 if there is none.
func (k *ranking) first() int {
	if len(k.items) == 0 {
		return -1
	}
	highest := k.items[len(k.items)-1].priority
	at, _ := slices.BinarySearchFunc(k.items, highest, func(it *item, p float64) int { return cmp.Compare(it.priority, p) })
	return at
}

// removeOlder removes and returns the groups whose version is before oldest.
func (k *ranking) removeOlder(oldest int64) (old []*item) {
	k.items = slices.DeleteFunc(k.items, func(it *item) bool {
		if it.version >= oldest {
			return false
		}
		old = append(old, it)
		k.size -= it.size
		return true
	})
	return old
}
