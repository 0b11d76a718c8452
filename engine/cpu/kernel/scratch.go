package kernel

import "sync"

// scratchList keeps temporary buffers between calls, so that a steady load allocates nothing.
type scratchList struct {
	mu   sync.Mutex
	free [][]float32
}

// Borrow is a buffer of n floats with arbitrary content, 64-byte aligned, to be given back with [Pool.Return].
func (p *Pool) Borrow(n int) []float32 {
	if p != nil {
		p.scratch.mu.Lock()
		defer p.scratch.mu.Unlock()
		free := p.scratch.free
		for i := len(free) - 1; i >= 0; i-- {
			if buf := free[i]; cap(buf) >= n && cap(buf) <= 4*n+4096 {
				p.scratch.free = append(free[:i], free[i+1:]...)
				return buf[:n]
			}
		}
	}
	return alignedFloats(n)
}

// Return hands a borrowed buffer back; the caller no longer uses it.
func (p *Pool) Return(buf []float32) {
	const kept = 64 // buffers; more than any one product holds on the cores of a large machine
	if p == nil {
		return
	}
	p.scratch.mu.Lock()
	defer p.scratch.mu.Unlock()
	if len(p.scratch.free) == kept {
		p.scratch.free = append(p.scratch.free[:0], p.scratch.free[1:]...)
	}
	p.scratch.free = append(p.scratch.free, buf)
}
