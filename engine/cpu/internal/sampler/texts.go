package sampler

import (
	"math/bits"
	"slices"
)

const (
	partTokens = 32      // of a part of a text
	textParts  = 1 << 14 // parts that texts keeps: half a million tokens, of 10 MB with their indexes
	compared   = 16      // most tokens in which the ends of two texts are compared
	visited    = 16      // most places that find looks at in an index
	knownTexts = 1 << 10 // prompts of which texts knows that it has them
	mostPrompt = 2048    // last tokens of a prompt that texts keeps
)

// texts finds where the newest tokens of a text came before: in the text itself, in its prompt, or in
// other replies to that prompt. Its memory is a ring of parts, so the oldest texts, which the oldest
// weights wrote, go first. A place is an index into tokens.
//
// A suffix automaton finds the same places, but cannot forget: chains of places by their last tokens
// need a tenth of its memory, and lose places as their parts are overwritten.
type texts struct {
	tokens  []int32 // [parts · partTokens]
	parts   []textPart
	born    int64 // parts handed out so far; part n stands at n modulo their number
	indexes [2]placeIndex
	prompts [knownTexts]knownPrompt
}

// textPart is a run of a text's tokens.
type textPart struct {
	group          uint64 // texts of one group are searched together
	born           int64
	previous, next int64 // parts of the same text, by when they were born; 0: none
	used           int32
}

// placeIndex finds places by the tokens that end there.
type placeIndex struct {
	length int     // number of these tokens
	heads  []int32 // [a power of 2] newest place + 1 by hash; 0: none
	links  []int32 // [places] the place + 1 that was newest before
}

type knownPrompt struct {
	group uint64
	born  int64 // of its first part
}

// text is a text that grows.
type text struct {
	group  uint64
	part   int64 // the newest; 0: none
	n      int   // tokens in recent
	recent [compared]int32
}

func newTexts(parts int) *texts {
	places := parts * partTokens
	x := &texts{tokens: make([]int32, places), parts: make([]textPart, parts)}
	heads := 1 << bits.Len(uint(places-1))
	for i, length := range []int{5, 2} { // the longer one is asked first: its places are fewer
		x.indexes[i] = placeIndex{length: length, heads: make([]int32, heads), links: make([]int32, places)}
	}
	return x
}

// textBytes is the memory of texts.
const textBytes = textParts*partTokens*(4+2*(4+4)) + textParts*48 + knownTexts*16

// slot returns the place in heads of the newest tokens of a text.
func (x *placeIndex) slot(t *text) uint64 {
	h := t.group
	for _, token := range t.recent[compared-x.length:] {
		h = (h ^ uint64(uint32(token))) * 0x9E3779B97F4A7C15
		h ^= h >> 29
	}
	return h & uint64(len(x.heads)-1)
}

// part returns a part by when it was born, nil if another has its memory.
func (x *texts) part(born int64) *textPart {
	if p := &x.parts[born%int64(len(x.parts))]; born > 0 && p.born == born {
		return p
	}
	return nil
}

// extend gives a text its next part.
func (x *texts) extend(t *text) *textPart {
	x.born++
	p := &x.parts[x.born%int64(len(x.parts))]
	*p = textPart{group: t.group, born: x.born}
	if before := x.part(t.part); before != nil {
		before.next, p.previous = x.born, t.part
	}
	t.part = x.born
	return p
}

// add appends a token. indexed says that find finds the place.
func (x *texts) add(t *text, token int32, indexed bool) {
	p := x.part(t.part)
	if p == nil || p.used == partTokens {
		p = x.extend(t)
	}
	place := int32(t.part%int64(len(x.parts)))*partTokens + p.used
	p.used++
	x.tokens[place] = token
	copy(t.recent[:], t.recent[1:])
	t.recent[compared-1] = token
	t.n = min(t.n+1, compared)
	for i := range x.indexes {
		index := &x.indexes[i]
		if index.links[place] = 0; indexed && index.length <= t.n {
			slot := index.slot(t)
			index.links[place], index.heads[slot] = index.heads[slot], place+1
		}
	}
}

// begin returns the text of a reply to a prompt, which texts keeps once.
func (x *texts) begin(group uint64, prompt []int32) text {
	if known := &x.prompts[group%knownTexts]; known.group != group || x.part(known.born) == nil {
		whole := text{group: group}
		*known = knownPrompt{group, x.born + 1}
		for _, token := range prompt[max(0, len(prompt)-mostPrompt):] {
			x.add(&whole, token, true)
		}
	}
	t := text{group: group}
	end := prompt[max(0, len(prompt)-compared):]
	for i, token := range end {
		x.add(&t, token, i == len(end)-1)
	}
	return t
}

// found is a place whose last tokens are a text's newest.
type found struct {
	place  int32
	length int // number of these tokens, at most compared
}

// find appends the places whose last tokens agree longest with the end of a text, the newest first. A
// place at the end of its own text is none of them: no token follows it.
func (x *texts) find(t *text, out []found) []found {
	for i := range x.indexes {
		index, longest := &x.indexes[i], 0
		if index.length > t.n {
			continue
		}
		place := index.heads[index.slot(t)] - 1
		for range visited {
			if place < 0 {
				break
			}
			length := x.common(place, t)
			if _, more := x.next(place); more && length >= max(index.length, longest) {
				if length > longest {
					longest, out = length, out[:0]
				}
				if !slices.ContainsFunc(out, func(f found) bool { return f.place == place }) { // links of overwritten places may lead back
					out = append(out, found{place, length})
				}
			}
			place = index.links[place] - 1
		}
		if len(out) > 0 {
			return out
		}
	}
	return out
}

// common returns the number of tokens that the text up to a place and another text have in common at
// their ends; 0 if they are of different groups.
func (x *texts) common(place int32, t *text) int {
	p := &x.parts[place/partTokens]
	at := place % partTokens
	if p.group != t.group || at >= p.used {
		return 0
	}
	n := 0
	for n < t.n {
		if at < 0 {
			if p = x.part(p.previous); p == nil {
				break
			}
			at = partTokens - 1
		}
		if x.tokens[int32(p.born%int64(len(x.parts)))*partTokens+at] != t.recent[compared-1-n] {
			break
		}
		n++
		at--
	}
	return n
}

// next returns the place behind another one in its text; false if the text ends there.
func (x *texts) next(place int32) (int32, bool) {
	p := &x.parts[place/partTokens]
	if place%partTokens+1 < p.used {
		return place + 1, true
	}
	following := x.part(p.next)
	if following == nil || following.used == 0 {
		return 0, false
	}
	return int32(p.next%int64(len(x.parts))) * partTokens, true
}
