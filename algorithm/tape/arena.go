package tape

// arena hands out zeroed slices and takes all of them back at once.
type arena struct {
	blocks [][]float64
	block  int // index of the block that take fills
	used   int // numbers used of this block
}

const blockSize = 1 << 14 // numbers; larger slices get a block of their own

func (a *arena) take(n int) []float64 {
	for a.block < len(a.blocks) {
		if b := a.blocks[a.block]; a.used+n <= len(b) {
			s := b[a.used : a.used+n : a.used+n]
			a.used += n
			clear(s)
			return s
		}
		a.block, a.used = a.block+1, 0
	}
	a.blocks = append(a.blocks, make([]float64, max(n, blockSize)))
	a.used = n
	return a.blocks[a.block][:n:n]
}

func (a *arena) reset() { a.block, a.used = 0, 0 }
