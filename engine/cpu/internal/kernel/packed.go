package kernel

import (
	"fmt"
	"unsafe"
)

// Storage is the number format of a [Packed] operand. Arithmetic with F32 and BF16 is f32. With
// Int8, a product first quantises the left operand as well, block by block, and sums integers.
type Storage int

const (
	F32  Storage = iota // 4 bytes per weight
	BF16                // 2 bytes per weight, rounded to nearest even: half the memory traffic while decoding
	Int8                // 17/16 bytes per weight: 7 bits, one scale for each output and 64 inputs
)

// mostFloats is more than any memory holds, and small enough not to overflow.
const mostFloats = 1 << 44

// Packed is the right operand [k, n] of a matrix product, laid out for streaming: panels of 16
// columns, each [k, 16], the last one padded with zeros. All kernel sets share the layout.
type Packed struct {
	N, K  int
	f32   []float32
	pairs []uint32      // in BF16: words with the weights of two inputs, rows [(K+1)/2, 16] of a panel
	int8  []int8Weights // blocks of panel 0, of panel 1 …
}

// NewPacked takes the memory of a [k, n] operand from arena (nil: the Go heap). Fill it with
// [Packed.Pack].
func NewPacked(arena *Arena, n, k int, storage Storage) (*Packed, error) {
	if n < 0 || k < 0 {
		return nil, fmt.Errorf("packed operand [%d, %d]: negative size", k, n)
	}
	if k > 0 && n > mostFloats/k {
		return nil, fmt.Errorf("packed operand [%d, %d]: no memory has so many elements", k, n)
	}
	size := (n + lanes - 1) / lanes * lanes * k
	p := &Packed{N: n, K: k}
	var err error
	switch {
	case storage == Int8:
		p.int8, err = newInt8(arena, n, k)
	case storage == BF16 && arena == nil:
		p.pairs = make([]uint32, p.pairRows()*lanes*((n+lanes-1)/lanes))
	case storage == BF16:
		p.pairs, err = arena.Uint32(p.pairRows() * lanes * ((n + lanes - 1) / lanes))
	case arena == nil:
		p.f32 = alignedFloats(size)
	default:
		p.f32, err = arena.Float32(size)
	}
	if err != nil {
		return nil, fmt.Errorf("packed operand [%d, %d]: %w", k, n, err)
	}
	return p, nil
}

// Pack fills p from b [k, n]. For y = x·Wᵀ with W [n, k] as checkpoints have it, b is NewMatrix(w,
// n, k).T(). A second Pack overwrites the first.
func (p *Packed) Pack(pool *Pool, b Matrix) {
	if b.Rows != p.K || b.Cols != p.N {
		panic(fmt.Sprintf("kernel: Pack: operand [%d, %d] into [%d, %d]", b.Rows, b.Cols, p.K, p.N))
	}
	b.check("Pack")
	ks := current()
	pool.runRows((p.N+lanes-1)/lanes, p.K*lanes, func(from, to int) {
		if p.int8 != nil {
			ks.packInt8Panels(pool, p, b, from, to)
			return
		}
		if p.pairs == nil {
			ks.packPanels(p.f32[from*p.K*lanes:], b, from, to, 0, p.K)
			return
		}
		size := p.pairRows() * lanes
		buf := pool.Borrow(3 * size)
		defer pool.Return(buf)
		for j := from; j < to && size > 0; j++ {
			ks.packPairs(p.pairs[j*size:(j+1)*size], buf, b, j)
		}
	})
}

// pairRows returns the rows of a panel in BF16. If K is odd, the second weights of the last row are 0.
func (p *Packed) pairRows() int { return (p.K + 1) / 2 }

// packPairs rounds panel j of b to bf16 and joins the weights of two inputs. buf is three times as long
// as dst.
func (ks *kernels) packPairs(dst []uint32, buf []float32, b Matrix, j int) {
	weights, rounded := buf[:2*len(dst)], unsafe.Slice((*uint16)(unsafe.Pointer(&buf[2*len(dst)])), 2*len(dst))
	ks.packPanels(weights, b, j, j+1, 0, b.Rows)
	clear(weights[b.Rows*lanes:])
	ks.toBF16(&rounded[0], &weights[0], len(weights))
	for i := 0; i < len(dst); i += lanes {
		joinPairs(dst[i:i+lanes], rounded[2*i:2*i+lanes], rounded[2*i+lanes:2*i+2*lanes])
	}
}

// joinPairs joins the numbers of first and second, as many as dst has words.
func joinPairs(dst []uint32, first, second []uint16) {
	first, second = first[:len(dst)], second[:len(dst)]
	for i := range dst {
		dst[i] = uint32(first[i]) | uint32(second[i])<<16
	}
}

// withZeros returns a copy of a in buf with a column of zeros more: pairs of weights need two inputs.
func withZeros(buf []float32, a Matrix) Matrix {
	m := NewMatrix(buf, a.Rows, a.Cols+1)
	for i := range a.Rows {
		row := m.Row(i)
		row[a.Cols] = 0
		if !a.trans {
			copy(row, a.Row(i))
			continue
		}
		for k := range a.Cols {
			row[k] = a.Data[k*a.Stride+i]
		}
	}
	return m
}

// operand returns p from panel j on.
func (p *Packed) operand(j int) operandB {
	if p.pairs != nil {
		panel := p.pairRows() * panelBytes
		return operandB{p: unsafe.Add(unsafe.Pointer(unsafe.SliceData(p.pairs)), j*panel), ks: panelBytes, panel: panel, pairs: true}
	}
	at := unsafe.Add(unsafe.Pointer(unsafe.SliceData(p.f32)), j*p.K*panelBytes)
	return operandB{p: at, ks: panelBytes, panel: p.K * panelBytes}
}
