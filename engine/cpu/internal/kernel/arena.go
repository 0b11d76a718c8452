package kernel

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"
)

// hugePage is the page size that an arena asks the operating system for.
const hugePage = 2 << 20

// Arena holds large arrays outside the Go heap, in huge pages if the system has them: reading
// weights from huge pages is twice as fast as from 4 KiB pages, and the garbage collector does not
// see them. Memory is zeroed. An Arena is safe for concurrent use; its arrays must not be used
// after [Arena.Free].
type Arena struct {
	mu     sync.Mutex
	whole  [][]byte // to unmap
	rest   []byte   // of the last chunk
	handed [][]byte // arrays handed out
	used   int64
	tally  bool // only count
}

// NewArena returns an empty arena. It reserves memory when a caller asks for an array.
func NewArena() *Arena { return &Arena{} }

// NewTally returns an arena that only counts: its arrays are nil, and Bytes returns what an arena
// would have handed out. So the code that takes memory can also plan it.
func NewTally() *Arena { return &Arena{tally: true} }

// Float32 returns a zeroed array of n floats, 64-byte aligned, valid until Free.
func (a *Arena) Float32(n int) ([]float32, error) {
	b, err := a.bytes(n, 4)
	if err != nil || len(b) == 0 {
		return nil, err
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), n), nil
}

// Matrix returns a zeroed [rows, cols] matrix, valid until Free. If its rows would lie a multiple
// of eight cache lines apart, it moves them one line further apart: otherwise the rows of a tile
// would fall into few sets of a cache and evict each other.
func (a *Arena) Matrix(rows, cols int) (Matrix, error) {
	m := Matrix{Rows: rows, Cols: cols, Stride: cols}
	if cols > 0 && cols%(8*lanes) == 0 {
		m.Stride += lanes
	}
	var err error
	m.Data, err = a.Float32(rows * m.Stride)
	return m, err
}

// Int32 returns a zeroed array of n integers, 64-byte aligned, valid until Free.
func (a *Arena) Int32(n int) ([]int32, error) {
	b, err := a.bytes(n, 4)
	if err != nil || len(b) == 0 {
		return nil, err
	}
	return unsafe.Slice((*int32)(unsafe.Pointer(&b[0])), n), nil
}

// Uint32 returns a zeroed array of n 32-bit words, 64-byte aligned, valid until Free.
func (a *Arena) Uint32(n int) ([]uint32, error) {
	b, err := a.bytes(n, 4)
	if err != nil || len(b) == 0 {
		return nil, err
	}
	return unsafe.Slice((*uint32)(unsafe.Pointer(&b[0])), n), nil
}

// Uint8 returns a zeroed array of n bytes, 64-byte aligned, valid until Free.
func (a *Arena) Uint8(n int) ([]uint8, error) {
	b, err := a.bytes(n, 1)
	if err != nil || len(b) == 0 {
		return nil, err
	}
	return b[:n:n], nil
}

// Bytes returns the number of bytes handed out since the last Free.
func (a *Arena) Bytes() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used
}

func (a *Arena) bytes(n, size int) ([]byte, error) {
	if n < 0 || n > (1<<46)/size {
		return nil, fmt.Errorf("arena: array of %d elements of %d bytes", n, size)
	}
	need := (n*size + 63) &^ 63
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tally {
		a.used += int64(need)
		return nil, nil
	}
	if need > len(a.rest) {
		chunk, whole, err := mapChunk((max(need, 8*hugePage) + hugePage - 1) &^ (hugePage - 1))
		if err != nil {
			return nil, fmt.Errorf("arena: reserving %d MiB: %w", need>>20, err)
		}
		a.whole = append(a.whole, whole)
		if len(chunk)-need < len(a.rest) { // keep the old remainder, which is larger
			return a.hand(chunk, need), nil
		}
		a.rest = chunk
	}
	b := a.hand(a.rest, need)
	a.rest = a.rest[need:]
	return b, nil
}

// hand hands out the first need bytes of a chunk.
func (a *Arena) hand(chunk []byte, need int) []byte {
	a.used += int64(need)
	b := chunk[:need:need]
	if need > 0 {
		a.handed = append(a.handed, b)
	}
	return b
}

// Touch brings the pages of v into memory on all cores; otherwise the first step would fault them
// in one by one. v keeps its values.
func Touch(pool *Pool, v []float32) {
	const page = hugePage / 4
	words := unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(v))), len(v)) // adding 0.0 would change -0.0; a plain 0 would not be added
	pool.Run((len(words)+page-1)/page, func(task int) {
		for i := task * page; i < min(len(words), (task+1)*page); i += 1024 {
			atomic.AddUint32(&words[i], 0)
		}
	})
}

// Touch brings the whole arena into memory on all cores.
func (a *Arena) Touch(pool *Pool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range a.handed {
		Touch(pool, unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4))
	}
}

// Free returns all memory to the system.
func (a *Arena) Free() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var first error
	for _, c := range a.whole {
		if err := unmapChunk(c); err != nil && first == nil {
			first = fmt.Errorf("arena: %w", err)
		}
	}
	a.whole, a.rest, a.handed, a.used = nil, nil, nil, 0
	return first
}

// alignedFloats returns a slice of n floats in the Go heap that starts at a 64-byte boundary.
func alignedFloats(n int) []float32 {
	s := make([]float32, n+16)
	skip := int(-uintptr(unsafe.Pointer(&s[0]))%64) / 4
	return s[skip : skip+n : skip+n]
}
