package kernel

import (
	"unsafe"
)

// Int8 storage. A weight is q·scale with q in [-63, 63] and one f32 scale for each output and block
// of 64 inputs; an activation, quantised as the product begins, is q·scale with q in [-127, 127]
// and one scale for each row and block. A block's products are summed in 32-bit integers, which is
// exact in any order, and
//
//	c = fma(float(sum)·scale of the activations, scale of the weights, c)
//
// for each block in increasing k: the same bits in every set, batch and number of cores.
//
// Weights are kept as q+64. That is an unsigned byte for AVX2's and VNNI's products of unsigned and
// signed bytes and the same signed byte for NEON's; AVX2's vpmaddubsw sums two products into 16
// bits, at most 2·127·127 = 32258, and so never saturates. The 64 adds 64·Σq over the activations,
// so each sum begins at -64·Σq. Weights lose one bit; in return AVX2 needs two multiplications,
// where separate signs (vpsignb) would take three operations. Activations, which have the outliers,
// keep all eight bits.
const (
	int8Block       = 64 // inputs that share a scale
	int8WeightLimit = 63
	int8InputLimit  = 127
	int8Tiny        = 1e-30 // the least maximum of a block, so that the scale's reciprocal stays finite
)

// int8Weights is a block of a panel: 16 outputs, with four inputs of an output next to each other.
type int8Weights struct {
	scale [lanes]float32
	q     [int8Block / 4][lanes][4]uint8
}

// int8Inputs is a block of a row of activations.
type int8Inputs struct {
	scale  float32
	offset int32 // -64·Σq
	q      [int8Block]int8
}

// int8Kernels are the functions of one set; every set has all of them.
type int8Kernels struct {
	rows  int // most rows of a tile
	tiles [maxRows + 1]int8Tile
	// quantize turns blocks of 64 numbers into integers of at most limit: round to nearest even of
	// x·(limit/m) with m the largest magnitude of the block. A block with an infinity or NaN has
	// the scale NaN.
	quantize func(dst *int8Inputs, src *float32, limit float32, blocks int)
}

// int8Tile adds the product of a tile's rows with one panel to C: row r of the activations is at a
// + r*ars, of C at c + r*ldc, all in bytes.
type int8Tile func(blocks int, a *int8Inputs, ars int, b *int8Weights, c *float32, ldc int)

func int8Blocks(k int) int { return (k + int8Block - 1) / int8Block }

// newInt8 takes the memory of a [k, n] operand.
func newInt8(arena *Arena, n, k int) ([]int8Weights, error) {
	size := (n + lanes - 1) / lanes * int8Blocks(k)
	if arena == nil {
		return make([]int8Weights, size), nil
	}
	b, err := arena.bytes(size, int(unsafe.Sizeof(int8Weights{})))
	if err != nil || len(b) == 0 {
		return nil, err
	}
	return unsafe.Slice((*int8Weights)(unsafe.Pointer(&b[0])), size), nil
}

// packInt8 quantises panel j of b into dst, its blocks.
func (ks *kernels) packInt8(pool *Pool, dst []int8Weights, b Matrix, j int) {
	stage := pool.Borrow(len(dst) * int8InputFloats)
	defer pool.Return(stage)
	rows := int8View(stage, len(dst))
	turned := b.T() // row i holds the weights of output i
	for i := range lanes {
		if j*lanes+i >= b.Cols {
			clear(rows)
		} else {
			ks.quantizeRow(pool, rows, turned, j*lanes+i, int8WeightLimit)
		}
		for n := range rows {
			dst[n].scale[i] = rows[n].scale
			for k := range dst[n].q {
				quad := *(*uint32)(unsafe.Pointer(&rows[n].q[4*k]))
				*(*uint32)(unsafe.Pointer(&dst[n].q[k][i])) = quad ^ 0x80808080 - 0x40404040 // each byte + 64, without carries
			}
		}
	}
}

// packInt8Panels packs panels [from, to) of b.
func (ks *kernels) packInt8Panels(pool *Pool, p *Packed, b Matrix, from, to int) {
	blocks, src := int8Blocks(p.K), b.packed
	if src == nil {
		for j := from; j < to; j++ {
			ks.packInt8(pool, p.int8[j*blocks:(j+1)*blocks], b, j)
		}
		return
	}
	rows := pool.Borrow(lanes * p.K)
	defer pool.Return(rows)
	for j := from; j < to; j++ {
		n := min(lanes, p.N-j*lanes)
		src.Rows(rows[:n*p.K], j*lanes, j*lanes+n)
		ks.packInt8(pool, p.int8[j*blocks:(j+1)*blocks], NewMatrix(rows, n, p.K).T(), 0)
	}
}

// quantizeRow quantises row i of a, which may be a transpose, padded with zeros to whole blocks.
func (ks *kernels) quantizeRow(pool *Pool, dst []int8Inputs, a Matrix, i int, limit float32) {
	if a.Cols == 0 {
		return
	}
	whole := a.Cols / int8Block
	if a.trans {
		whole = 0
	} else if whole > 0 {
		ks.int8.quantize(&dst[0], &a.Data[i*a.Stride], limit, whole)
	}
	if whole == len(dst) {
		return
	}
	rest := pool.Borrow((len(dst) - whole) * int8Block)
	defer pool.Return(rest)
	clear(rest)
	if !a.trans {
		copy(rest, a.Row(i)[whole*int8Block:])
	} else {
		for k := range a.Cols {
			rest[k] = a.Data[k*a.Stride+i]
		}
	}
	ks.int8.quantize(&dst[whole], &rest[0], limit, len(dst)-whole)
}

// int8InputFloats is the size of int8Inputs in floats, for scratch.
const int8InputFloats = int(unsafe.Sizeof(int8Inputs{})) / 4

// int8View views scratch as n blocks of activations.
func int8View(scratch []float32, n int) []int8Inputs {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*int8Inputs)(unsafe.Pointer(unsafe.SliceData(scratch))), n)
}

// int8Product is MatMulPacked for Int8 weights.
func (ks *kernels) int8Product(pool *Pool, c, a Matrix, w *Packed, accumulate bool) {
	blocks := int8Blocks(w.K)
	scratch := pool.Borrow(a.Rows * blocks * int8InputFloats)
	defer pool.Return(scratch)
	inputs := int8View(scratch, a.Rows*blocks)
	pool.runRows(a.Rows, a.Cols, func(from, to int) {
		for i := from; i < to; i++ {
			ks.quantizeRow(pool, inputs[i*blocks:(i+1)*blocks], a, i, int8InputLimit)
		}
	})
	pool.split(c.Rows, c.Cols, a.Cols, false, func(i, rows, j, panels int) {
		for p := j; p < j+panels; p++ {
			ks.int8Panel(c, inputs, w.int8[p*blocks:(p+1)*blocks], i, i+rows, p, accumulate)
		}
	})
}

// int8Panel computes rows [from, to) of panel p of c.
func (ks *kernels) int8Panel(c Matrix, inputs []int8Inputs, w []int8Weights, from, to, p int, accumulate bool) {
	cols := min(lanes, c.Cols-p*lanes)
	if !accumulate {
		for i := from; i < to; i++ {
			clear(c.Data[i*c.Stride+p*lanes:][:cols])
		}
	}
	if len(w) == 0 {
		return
	}
	size := len(w) * int(unsafe.Sizeof(int8Inputs{}))
	if cols == lanes {
		for i, rows := from, 0; i < to; i += rows {
			rows = ks.int8.tileRows(to - i)
			ks.int8.tiles[rows](len(w), &inputs[i*len(w)], size, &w[0], &c.Data[i*c.Stride+p*lanes], 4*c.Stride)
		}
		return
	}
	tile := tilePool.Get().(*[maxRows * lanes]float32)
	defer tilePool.Put(tile)
	for i, rows := from, 0; i < to; i += rows {
		rows = ks.int8.tileRows(to - i)
		for r := range rows {
			copy(tile[r*lanes:r*lanes+cols], c.Data[(i+r)*c.Stride+p*lanes:])
		}
		ks.int8.tiles[rows](len(w), &inputs[i*len(w)], size, &w[0], &tile[0], panelBytes)
		for r := range rows {
			copy(c.Data[(i+r)*c.Stride+p*lanes:], tile[r*lanes:r*lanes+cols])
		}
	}
}

// tileRows returns how many of the remaining rows the next tile takes: all, or so many that the
// tiles have about equal heights.
func (k *int8Kernels) tileRows(left int) int {
	tiles := (left + k.rows - 1) / k.rows
	return (left + tiles - 1) / tiles
}
