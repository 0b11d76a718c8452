package dataset

import "sort"

// blockBytes is how much is read for one row of a file that is not held in memory; a larger row is a block of its own.
const blockBytes = 64 << 10

// mark is the first row of a block of a file.
type mark struct {
	Begin  int64 // byte
	Row    int   // from 0
	Number int   // of the row's line in the file, from 1
}

// marks is a sparse index of rows: 24 bytes for each [blockBytes] of a file, however many rows these are.
type marks []mark

// add notes that a row of the given size begins here.
func (m *marks) add(at mark, size int) {
	if n := len(*m); n == 0 || at.Begin-(*m)[n-1].Begin >= blockBytes || size >= blockBytes {
		*m = append(*m, at)
	}
}

// find is the block with row i of a file that ends at byte end.
func (m marks) find(i int, end int64) (first mark, size int64) {
	k := sort.Search(len(m), func(k int) bool { return m[k].Row > i }) - 1
	if k+1 < len(m) {
		end = m[k+1].Begin
	}
	return m[k], end - m[k].Begin
}
