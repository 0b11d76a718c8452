package dataset

import (
	"errors"
	"io"
	"sort"
	"sync"
)

// blockBytes is the number of bytes read for one row of a file that is not in memory. A larger row
// is its own block.
const blockBytes = 64 << 10

// mark is the first row of a block of a file.
type mark struct {
	Begin  int64 // byte
	Row    int   // from 0
	Number int   // of the row's line in the file, from 1
}

// marks is a sparse index of rows: 24 bytes for each [blockBytes] of a file, whatever the number
// of rows.
type marks []mark

// add records a row of the given size, which begins a block or belongs to the last one.
func (m *marks) add(entry mark, size int) {
	n := len(*m)
	if n > 0 && entry.Begin-(*m)[n-1].Begin < blockBytes && size < blockBytes {
		return
	}
	*m = append(*m, entry)
}

// find returns the block with row i; the file ends at byte end.
func (m marks) find(i int, end int64) (first mark, size int64) {
	k := sort.Search(len(m), func(k int) bool { return m[k].Row > i }) - 1
	if k+1 < len(m) {
		end = m[k+1].Begin
	}
	return m[k], end - m[k].Begin
}

// block is the block that was read last. Following rows are taken from it.
type block struct {
	mu     sync.Mutex
	begin  int64  // byte of the file
	rest   []byte // from the next row on; nil before the first
	row    int    // the next, from 0
	number int    // of its line
	short  bool   // the file ended before it
}

// seek positions the block at or before row i; it reads the row's block if needed. Rows returned
// before stay valid.
func (b *block) seek(m marks, i int, end int64, read func(begin, size int64) ([]byte, error)) error {
	first, size := m.find(i, end)
	if b.rest != nil && b.begin == first.Begin && b.row <= i {
		return nil
	}
	data, err := read(first.Begin, size)
	b.begin, b.rest, b.row, b.number, b.short = first.Begin, data, first.Row, first.Number, int64(len(data)) < size
	return err
}

// readAt reads size bytes, or fewer if the file has become shorter.
func readAt(r io.ReaderAt, begin, size int64) ([]byte, error) {
	data := make([]byte, size)
	n, err := r.ReadAt(data, begin)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], err
}
