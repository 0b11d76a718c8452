package tokenizer

import "math"

// scanLongest is the longest word, in symbols, for which every merge scans all pairs for the lowest
// rank; for longer words a heap is faster. Without a pre-tokenizer the whole text is one word.
const scanLongest = 48

var noMerge = merge{rank: math.MaxInt32}

func (m *bpe) lookup(left, right int32) merge {
	if found, ok := m.merges[pair{left, right}]; ok {
		return found
	}
	return noMerge
}

// mergeShort merges ids in place and returns the number that remain.
func (m *bpe) mergeShort(ids []int32) int {
	var store [scanLongest]merge
	pairs := store[:max(0, len(ids)-1)]
	for i := range pairs {
		pairs[i] = m.lookup(ids[i], ids[i+1])
	}
	for {
		at, best := -1, noMerge.rank
		for i, p := range pairs {
			if p.rank < best {
				at, best = i, p.rank
			}
		}
		if at < 0 {
			return len(ids)
		}
		ids[at] = pairs[at].id
		ids = append(ids[:at+1], ids[at+2:]...)
		pairs = append(pairs[:at], pairs[at+1:]...)
		if at < len(pairs) {
			pairs[at] = m.lookup(ids[at], ids[at+1])
		}
		if at > 0 {
			pairs[at-1] = m.lookup(ids[at-1], ids[at])
		}
	}
}

// symbol is a node in the doubly linked list of mergeLong; id is -1 after a merge into the left
// neighbour.
type symbol struct{ id, prev, next int32 }

// candidate is a pair for a merge: the symbol at position left and its right neighbour.
type candidate struct {
	merge
	left, leftID, rightID int32
}

func (c candidate) before(d candidate) bool {
	return c.rank < d.rank || c.rank == d.rank && c.left < d.left
}

// mergeLong does the work of mergeShort in n·log n steps.
func (m *bpe) mergeLong(ids []int32) int {
	list := make([]symbol, len(ids))
	for i, id := range ids {
		list[i] = symbol{id, int32(i) - 1, int32(i) + 1}
	}
	list[len(list)-1].next = -1
	var queue candidates
	offer := func(left, right int32) {
		if left < 0 || right < 0 {
			return
		}
		a, b := list[left].id, list[right].id
		if found, ok := m.merges[pair{a, b}]; ok {
			queue.push(candidate{found, left, a, b})
		}
	}
	for i := range int32(len(list) - 1) {
		offer(i, i+1)
	}
	for len(queue) > 0 {
		c := queue.pop()
		left := &list[c.left]
		if left.id != c.leftID || left.next < 0 || list[left.next].id != c.rightID {
			continue // another merge has changed one of the two
		}
		right := &list[left.next]
		left.id, left.next = c.id, right.next
		right.id = -1
		if left.next >= 0 {
			list[left.next].prev = c.left
		}
		offer(left.prev, c.left)
		offer(c.left, left.next)
	}
	n := 0
	for i := int32(0); i >= 0; i = list[i].next {
		ids[n] = list[i].id
		n++
	}
	return n
}

// candidates is a binary heap with the next pair to merge on top.
type candidates []candidate

func (q *candidates) push(c candidate) {
	h := append(*q, c)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !c.before(h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = c
	*q = h
}

func (q *candidates) pop() candidate {
	h := *q
	top, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	for i := 0; len(h) > 0; {
		child := 2*i + 1
		if child+1 < len(h) && h[child+1].before(h[child]) {
			child++
		}
		if child >= len(h) || !h[child].before(last) {
			h[i] = last
			break
		}
		h[i] = h[child]
		i = child
	}
	*q = h
	return top
}
