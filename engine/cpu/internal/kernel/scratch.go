package kernel

import (
	"slices"
	"sync"
)

// scratchList keeps temporary buffers between calls, so that a steady load allocates nothing. The
// largest amount ever in use at once bounds what it keeps: room for the buffers of two consecutive
// operations.
type scratchList struct {
	mu   sync.Mutex
	free [][]float32 // the newest last
	idle int         // floats of free
	live int         // floats lent
	most int         // largest live so far
}

// Borrow returns a buffer of n floats with arbitrary content, 64-byte aligned. The caller must give
// it back with [Pool.Return].
func (p *Pool) Borrow(n int) []float32 {
	if p == nil {
		return alignedFloats(n)
	}
	return p.scratch.borrow(n)
}

func (s *scratchList) borrow(n int) []float32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.free) - 1; i >= 0; i-- {
		if buf := s.free[i]; cap(buf) >= n && cap(buf) <= 4*n+4096 {
			s.free = slices.Delete(s.free, i, i+1)
			s.idle -= cap(buf)
			s.lend(cap(buf))
			return buf[:n]
		}
	}
	s.lend(n)
	return alignedFloats(n)
}

func (s *scratchList) lend(n int) {
	s.live += n
	s.most = max(s.most, s.live)
}

// Return gives a borrowed buffer back. The caller must not use it afterwards.
func (p *Pool) Return(buf []float32) {
	if p == nil {
		return
	}
	s := &p.scratch
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live -= cap(buf)
	s.idle += cap(buf)
	s.free = append(s.free, buf)
	for len(s.free) > 0 && s.idle+s.live > 2*s.most {
		s.idle -= cap(s.free[0])
		s.free = slices.Delete(s.free, 0, 1)
	}
}

// ScratchBytes returns the memory of all buffers, lent or kept.
func (p *Pool) ScratchBytes() int64 {
	if p == nil {
		return 0
	}
	p.scratch.mu.Lock()
	defer p.scratch.mu.Unlock()
	return 4 * int64(p.scratch.live+p.scratch.idle)
}
