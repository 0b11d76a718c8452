package rundir

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// quick notes the values of a line for columns, and returns its head. ok is false for a line that has a
// name which is not known yet, or another form than the jsonl monitor writes.
func (c *File) quick(line []byte, to []*Column) (h Head, ok bool) {
	c.hits = c.hits[:0]
	h, b, ok := headOf(line)
	if !ok {
		return h, false
	}
	if b[0] == '}' {
		return h, true
	}
	for before := int32(0); ; {
		id := c.after[before] // metrics mostly come in the same order
		if id < 0 || len(b) < len(c.keys[id]) || string(b[:len(c.keys[id])]) != c.keys[id] {
			if id = c.idOf(b); id < 0 {
				return h, false
			}
			c.after[before] = id
		}
		b = b[len(c.keys[id]):]
		n := valueEnd(b)
		if n <= 0 || !isValue(b[:n]) {
			return h, false
		}
		if to[id] != nil {
			c.hits = append(c.hits, hit{to[id], b[:n]})
		}
		if b[n] == '}' {
			return h, true
		}
		b, before = b[n+1:], id+1
	}
}

// idOf returns the number of the name with which the rest of a line begins; −1 if it is not known.
func (c *File) idOf(b []byte) int32 {
	if len(b) == 0 || b[0] != '"' {
		return -1
	}
	end := bytes.IndexByte(b[1:], '"') + 1
	if end == 0 || end+1 >= len(b) || b[end+1] != ':' {
		return -1
	}
	id, ok := c.ids[string(b[1:end])]
	if !ok || c.keys[id] == "" {
		return -1
	}
	return id
}

// valueEnd returns the length of the value with which b begins, behind which there is a comma or a brace;
// −1 if it is too long.
func valueEnd(b []byte) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; n+8 <= len(b) && n < maxValue; n += 8 { // eight bytes at once
		word := binary.LittleEndian.Uint64(b[n:])
		comma, brace := word^','*ones, word^'}'*ones
		if found := ((comma-ones)&^comma | (brace-ones)&^brace) & tops; found != 0 { // the lowest is right
			return n + bits.TrailingZeros64(found)/8
		}
	}
	for ; n < len(b) && n < maxValue; n++ {
		if b[n] == ',' || b[n] == '}' {
			return n
		}
	}
	return -1
}
