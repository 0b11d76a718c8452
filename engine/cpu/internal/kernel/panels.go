package kernel

import (
	"fmt"
	"sync"
	"unsafe"
)

// Weights returns the [N, K] matrix W of y = x·Wᵀ, whose panels are p. Only [MatMul] takes it, as its right operand: x·Wᵀ reads the
// panels where they are, and dy·W transposes them block by block. p must store f32.
func (p *Packed) Weights() Matrix {
	if p.f32 == nil && p.N*p.K > 0 {
		panic("kernel: Weights of an operand that is not f32")
	}
	return Matrix{Data: p.f32, Rows: p.N, Cols: p.K, Stride: p.K, packed: p}
}

// Packed returns the operand whose weights m views; nil for a row-major matrix.
func (m Matrix) Packed() *Packed { return m.packed }

// ViewPacked returns the f32 operand [k, n] in memory that the caller has taken, of [PackedFloats] elements.
func ViewPacked(data []float32, n, k int) Packed {
	checkLen("ViewPacked", data, PackedFloats(n, k))
	return Packed{N: n, K: k, f32: data}
}

// PackedFloats returns the floats of an f32 operand [k, n].
func PackedFloats(n, k int) int { return (n + lanes - 1) / lanes * lanes * k }

// Rows copies rows [from, to) of W [N, K] to dst, [to-from, K].
func (p *Packed) Rows(dst []float32, from, to int) {
	p.eachPanel("Rows", dst, from, to, (*kernels).unpackPanel)
}

// SetRows replaces rows [from, to) of W [N, K] by src, [to-from, K]. Concurrent calls may set other rows.
func (p *Packed) SetRows(src []float32, from, to int) {
	p.eachPanel("SetRows", src, from, to, (*kernels).repackPanel)
}

// eachPanel calls do for the part of each panel that holds some of the rows [from, to) of W, with these rows in v.
func (p *Packed) eachPanel(what string, v []float32, from, to int, do func(ks *kernels, panel, v []float32, first, rows, k int)) {
	if from < 0 || to > p.N || from > to {
		panic(fmt.Sprintf("kernel: %s [%d, %d) of %d", what, from, to, p.N))
	}
	checkLen(what, v, (to-from)*p.K)
	ks := current()
	for from < to {
		first := from % lanes
		rows := min(lanes-first, to-from)
		do(ks, p.f32[from/lanes*lanes*p.K:][:lanes*p.K], v[:rows*p.K], first, rows, p.K)
		v, from = v[rows*p.K:], from+rows
	}
}

// unpackPanel copies rows [first, first+rows) of a panel [k, 16] to dst [rows, k].
func (ks *kernels) unpackPanel(panel, dst []float32, first, rows, k int) {
	done := 0
	if rows == lanes {
		tile := squarePool.Get().(*[lanes * lanes]float32)
		defer squarePool.Put(tile)
		for ; done+lanes <= k; done += lanes {
			ks.transpose(unsafe.Pointer(tile), unsafe.Pointer(&panel[done*lanes]), lanes, lanes)
			for r := range lanes {
				*(*[lanes]float32)(dst[r*k+done:]) = *(*[lanes]float32)(tile[r*lanes:])
			}
		}
	}
	for r := range rows {
		for i := done; i < k; i++ {
			dst[r*k+i] = panel[i*lanes+first+r]
		}
	}
}

var squarePool = sync.Pool{New: func() any { return new([lanes * lanes]float32) }}

// repackPanel copies src [rows, k] to rows [first, first+rows) of a panel [k, 16].
func (ks *kernels) repackPanel(panel, src []float32, first, rows, k int) {
	if rows == lanes {
		ks.packTransposed(panel, src, k, rows, k)
		return
	}
	for r := range rows {
		for i := range k {
			panel[i*lanes+first+r] = src[r*k+i]
		}
	}
}

// turnPanel packs panel j of W, rows [k0, k0+kc) of it, from the panels of Wᵀ: 16 outputs of 16 inputs at a time.
func (ks *kernels) turnPanel(dst []float32, w Matrix, j, k0, kc int) {
	cols := min(lanes, w.Cols-j*lanes)
	for k := 0; k < kc; {
		first := (k0 + k) % lanes
		rows := min(lanes-first, kc-k)
		block := w.Data[(k0+k)/lanes*lanes*w.Stride+j*lanes*lanes:]
		if rows == lanes && cols == lanes {
			ks.transpose(unsafe.Pointer(&dst[k*lanes]), unsafe.Pointer(&block[:lanes*lanes][0]), lanes, lanes)
		} else {
			to := dst[k*lanes : (k+rows)*lanes]
			clear(to)
			for r := range rows {
				for c := range cols {
					to[r*lanes+c] = block[c*lanes+first+r]
				}
			}
		}
		k += rows
	}
}
