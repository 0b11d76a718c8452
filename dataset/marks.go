package dataset

import (
	"errors"
	"io"
	"sort"
	"sync"
)

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

// add notes that a row of the given size begins here, and says whether a block does.
func (m *marks) add(at mark, size int) bool {
	n := len(*m)
	if n > 0 && at.Begin-(*m)[n-1].Begin < blockBytes && size < blockBytes {
		return false
	}
	*m = append(*m, at)
	return true
}

// find is the block with row i of a file that ends at byte end.
func (m marks) find(i int, end int64) (first mark, size int64) {
	k := sort.Search(len(m), func(k int) bool { return m[k].Row > i }) - 1
	if k+1 < len(m) {
		end = m[k+1].Begin
	}
	return m[k], end - m[k].Begin
}

// block is the one that was read last: rows after the one that it was read for are taken from it, on from there.
type block struct {
	mu     sync.Mutex
	begin  int64  // byte of the file
	rest   []byte // from the next row on; nil before the first
	row    int    // the next, from 0
	number int    // of its line
	short  bool   // the file ended before it
}

// seek makes the block stand at row i or before it, by reading it unless it does. Rows that were given stay what they are.
func (b *block) seek(m marks, i int, end int64, read func(begin, size int64) ([]byte, error)) error {
	first, size := m.find(i, end)
	if b.rest != nil && b.begin == first.Begin && b.row <= i {
		return nil
	}
	data, err := read(first.Begin, size)
	b.begin, b.rest, b.row, b.number, b.short = first.Begin, data, first.Row, first.Number, int64(len(data)) < size
	return err
}

// readAt reads so many bytes, or to the end of a file that has become shorter.
func readAt(r io.ReaderAt, begin, size int64) ([]byte, error) {
	data := make([]byte, size)
	n, err := r.ReadAt(data, begin)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], err
}
