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
	N, K int
	f32  []float32
	bf16 []uint16
	int8 []int8Weights // blocks of panel 0, of panel 1 …
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
		p.bf16 = make([]uint16, size)
	case storage == BF16:
		p.bf16, err = arena.Uint16(size)
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
		if p.bf16 == nil {
			ks.packPanels(p.f32[from*p.K*lanes:], b, from, to, 0, p.K)
			return
		}
		buf := pool.Borrow(p.K * lanes)
		defer pool.Return(buf)
		for j := from; j < to && p.K > 0; j++ {
			ks.packPanels(buf, b, j, j+1, 0, p.K)
			ks.toBF16(&p.bf16[j*p.K*lanes], &buf[0], p.K*lanes)
		}
	})
}

// operand returns p from panel j on.
func (p *Packed) operand(j int) operandB {
	if p.bf16 != nil {
		at := unsafe.Add(unsafe.Pointer(unsafe.SliceData(p.bf16)), j*p.K*lanes*2)
		return operandB{p: at, ks: lanes * 2, panel: p.K * lanes * 2, bf16: true}
	}
	at := unsafe.Add(unsafe.Pointer(unsafe.SliceData(p.f32)), j*p.K*panelBytes)
	return operandB{p: at, ks: panelBytes, panel: p.K * panelBytes}
}
