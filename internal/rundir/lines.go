package rundir

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// readSize is how many bytes are read of a file at once: so few that they are still in the processor's
// cache when they are searched.
const readSize = 256 << 10

// buffers are what files are read into.
var buffers = sync.Pool{New: func() any { b := make([]byte, readSize); return &b }}

// EachLine calls visit with every whole line between two offsets, and the offset behind it; with nil for
// a line that is too long.
func EachLine(f io.ReaderAt, from, to int64, visit func(line []byte, end int64)) error {
	kept := buffers.Get().(*[]byte)
	defer buffers.Put(kept)
	held, long := (*kept)[:0], false
	for at := from; at < to; {
		if len(held) == cap(held) {
			if long = long || len(held) >= maxLine; long {
				held = held[:0]
			} else {
				held = append(make([]byte, 0, 2*cap(held)), held...)
			}
		}
		n, err := f.ReadAt(held[len(held):min(int64(cap(held)), int64(len(held))+to-at)], at)
		if n == 0 && err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		at += int64(n)
		rest := held[:len(held)+n]
		for {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				break
			}
			line := rest[:i+1]
			if rest = rest[i+1:]; long {
				line = nil
			}
			long = false
			visit(line, at-int64(len(rest)))
		}
		held = held[:copy(held[:cap(held)], rest)]
	}
	return nil
}
