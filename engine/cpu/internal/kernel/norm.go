package kernel

import (
	"fmt"
	"math"
)

// RMSNorm writes y = x·rstd·weight row by row, rstd = 1/√(mean x² + eps) (Zhang and Sennrich 2019).
// x, y [rows, cols] (y may be x), weight [cols]. rstd [rows] is for the backward pass and may be
// nil.
func RMSNorm(pool *Pool, y, x Matrix, weight []float32, eps float32, rstd []float32) {
	y.checkShape("RMSNorm: y", x.Rows, x.Cols)
	x.checkShape("RMSNorm: x", x.Rows, x.Cols)
	checkLen("RMSNorm: weight", weight, x.Cols)
	if rstd != nil {
		checkLen("RMSNorm: rstd", rstd, x.Rows)
	}
	ks := current()
	pool.runRows(x.Rows, x.Cols, func(from, to int) {
		for i := from; i < to; i++ {
			in := x.Row(i)
			r := float32(1 / math.Sqrt(float64(ks.dotRow(in, in))/float64(x.Cols)+float64(eps)))
			if rstd != nil {
				rstd[i] = r
			}
			ks.scaleMulRow(y.Row(i), in, weight, r)
		}
	})
}

func (ks *kernels) scaleMulRow(y, x, w []float32, a float32) {
	n := len(x) &^ (lanes - 1)
	if n > 0 {
		ks.scaleMul(&y[0], &x[0], &w[0], a, n)
	}
	if n < len(x) {
		t := tailPool.Get().(*tail)
		ks.scaleMul(&t[0][0], t.pad(1, x[n:], 0), t.pad(2, w[n:], 0), a, lanes)
		copy(y[n:], t[0][:len(x)-n])
		tailPool.Put(t)
	}
}

// RMSNormBackward adds the gradient of RMSNorm to dx [rows, cols] and, if dweight is not nil, to
// dweight [cols]; the rows add to dweight one by one in increasing order. dy, x [rows, cols],
// weight [cols], rstd [rows]. dx aliases neither dy nor x.
func RMSNormBackward(pool *Pool, dx, dy, x Matrix, weight, rstd, dweight []float32) {
	dx.checkShape("RMSNormBackward: dx", x.Rows, x.Cols)
	dy.checkShape("RMSNormBackward: dy", x.Rows, x.Cols)
	x.checkShape("RMSNormBackward: x", x.Rows, x.Cols)
	checkLen("RMSNormBackward: weight", weight, x.Cols)
	checkLen("RMSNormBackward: rstd", rstd, x.Rows)
	ks := current()
	pool.runRows(x.Rows, 2*x.Cols, func(from, to int) {
		for i := from; i < to; i++ {
			ks.normDXRow(dx.Row(i), dy.Row(i), x.Row(i), weight, rstd[i])
		}
	})
	if dweight == nil {
		return
	}
	checkLen("RMSNormBackward: dweight", dweight, x.Cols)
	pool.columnBlocks(x.Rows, x.Cols, func(from, to int) {
		for i := range x.Rows {
			ks.mulAddRow(dweight[from:to], dy.Row(i)[from:to], x.Row(i)[from:to], rstd[i])
		}
	})
}

// columnBlock is the number of columns in one task of columnBlocks.
const columnBlock = 128

// columnBlocks calls run on ranges of columns. Each call sees all rows, so sums over rows keep
// their order.
func (p *Pool) columnBlocks(rows, cols int, run func(from, to int)) {
	if rows*cols < 1<<14 {
		run(0, cols)
		return
	}
	p.Run((cols+columnBlock-1)/columnBlock, func(task int) {
		run(task*columnBlock, min(cols, (task+1)*columnBlock))
	})
}

// normDXRow adds rstd·(dy·w - x·mean(dy·w·x)·rstd²) to dx.
func (ks *kernels) normDXRow(dx, dy, x, w []float32, rstd float32) {
	n := len(x) &^ (lanes - 1)
	t := tailPool.Get().(*tail)
	defer tailPool.Put(t)
	var dot float32
	if n > 0 {
		dot = ks.dot3(&dy[0], &w[0], &x[0], n)
	}
	if n < len(x) {
		dot += ks.dot3(t.pad(0, dy[n:], 0), t.pad(1, w[n:], 0), t.pad(2, x[n:], 0), lanes)
	}
	c := mul(mul(mul(rstd, rstd), rstd), dot) / float32(len(x))
	if n > 0 {
		ks.normDX(&dx[0], &dy[0], &x[0], &w[0], rstd, c, n)
	}
	if n < len(x) {
		ks.normDX(t.pad(3, dx[n:], 0), &t[0][0], &t[2][0], &t[1][0], rstd, c, lanes)
		copy(dx[n:], t[3][:len(x)-n])
	}
}

// mulAddRow adds dy·rstd·x to dw.
func (ks *kernels) mulAddRow(dw, dy, x []float32, rstd float32) {
	n := len(x) &^ (lanes - 1)
	if n > 0 {
		ks.mulAdd(&dw[0], &dy[0], &x[0], rstd, n)
	}
	if n < len(x) {
		t := tailPool.Get().(*tail)
		ks.mulAdd(t.pad(0, dw[n:], 0), t.pad(1, dy[n:], 0), t.pad(2, x[n:], 0), rstd, lanes)
		copy(dw[n:], t[0][:len(x)-n])
		tailPool.Put(t)
	}
}

// AddBias adds bias [cols] to every row of y [rows, cols].
func AddBias(pool *Pool, y Matrix, bias []float32) {
	y.checkShape("AddBias: y", y.Rows, y.Cols)
	checkLen("AddBias: bias", bias, y.Cols)
	ks := current()
	pool.runRows(y.Rows, y.Cols, func(from, to int) {
		for i := from; i < to; i++ {
			unary(y.Row(i), bias, ks.add)
		}
	})
}

// AddRows adds x to y, both [rows, cols].
func AddRows(pool *Pool, y, x Matrix) {
	y.checkShape("AddRows: y", x.Rows, x.Cols)
	x.checkShape("AddRows: x", x.Rows, x.Cols)
	ks := current()
	pool.runRows(y.Rows, y.Cols, func(from, to int) {
		for i := from; i < to; i++ {
			unary(y.Row(i), x.Row(i), ks.add)
		}
	})
}

// AddBiasBackward adds the rows of dy [rows, cols] to dbias [cols], one by one in increasing order.
func AddBiasBackward(pool *Pool, dbias []float32, dy Matrix) {
	dy.checkShape("AddBiasBackward: dy", dy.Rows, dy.Cols)
	checkLen("AddBiasBackward: dbias", dbias, dy.Cols)
	ks := current()
	pool.columnBlocks(dy.Rows, dy.Cols, func(from, to int) {
		for i := range dy.Rows {
			unary(dbias[from:to], dy.Row(i)[from:to], ks.add)
		}
	})
}

// RoPE rotates the heads of x [rows, heads·headDim] in place: elements j and j+half of each head by
// the angle whose cosine and sine are at [positions[row], j] of cos and sin [≥ max position + 1,
// half] (Su et al. 2021, in the half-split layout of HF checkpoints). Elements from 2·half on stay as
// they are.
func RoPE(pool *Pool, x Matrix, headDim int, cos, sin Matrix, positions []int32) {
	rope(pool, "RoPE", x, headDim, cos, sin, positions, 1)
}

// RoPEBackward applies the inverse rotation to the gradient dx, in place; arguments as in [RoPE].
func RoPEBackward(pool *Pool, dx Matrix, headDim int, cos, sin Matrix, positions []int32) {
	rope(pool, "RoPEBackward", dx, headDim, cos, sin, positions, -1)
}

func rope(pool *Pool, what string, x Matrix, headDim int, cos, sin Matrix, positions []int32, sign float32) {
	half := cos.Cols
	if headDim <= 0 || 2*half > headDim || x.Cols%headDim != 0 || len(positions) != x.Rows {
		panic(fmt.Sprintf("kernel: %s: %d columns, head dimension %d of which %d are rotated, %d positions for %d rows",
			what, x.Cols, headDim, 2*half, len(positions), x.Rows))
	}
	x.checkShape(what+": x", x.Rows, x.Cols)
	cos.checkShape(what+": cos", cos.Rows, half)
	sin.checkShape(what+": sin", cos.Rows, half)
	ks := current()
	pool.runRows(x.Rows, x.Cols, func(from, to int) {
		for i := from; i < to; i++ {
			c, s := cos.Row(int(positions[i])), sin.Row(int(positions[i]))
			for row := x.Row(i); len(row) > 0; row = row[headDim:] {
				ks.rotateHead(row[:half], row[half:2*half], c, s, sign)
			}
		}
	})
}

// Rotations fills the tables of [RoPE]: at position p the angle of pair j is p·frequencies[j], and scale multiplies
// cosine and sine.
func Rotations(cos, sin Matrix, frequencies []float64, scale float64) {
	for position := range cos.Rows {
		c, s := cos.Row(position), sin.Row(position)
		for j, f := range frequencies {
			sine, cosine := math.Sincos(float64(position) * f)
			c[j], s[j] = float32(cosine*scale), float32(sine*scale)
		}
	}
}

// ScaleByPosition multiplies row i of x by factors[positions[i]]. Nil factors are all 1.
func ScaleByPosition(pool *Pool, x Matrix, factors []float32, positions []int32) {
	if factors == nil {
		return
	}
	x.checkShape("ScaleByPosition: x", len(positions), x.Cols)
	pool.runRows(x.Rows, x.Cols, func(from, to int) {
		for i := from; i < to; i++ {
			if a := factors[positions[i]]; a != 1 {
				Scale(x.Row(i), x.Row(i), a)
			}
		}
	})
}

func (ks *kernels) rotateHead(x0, x1, cos, sin []float32, sign float32) {
	n := len(x0) &^ (lanes - 1)
	if n > 0 {
		ks.rotate(&x0[0], &x1[0], &cos[0], &sin[0], sign, n)
	}
	if n < len(x0) {
		t := tailPool.Get().(*tail)
		ks.rotate(t.pad(0, x0[n:], 0), t.pad(1, x1[n:], 0), t.pad(2, cos[n:], 0), t.pad(3, sin[n:], 0), sign, lanes)
		copy(x0[n:], t[0][:len(x0)-n])
		copy(x1[n:], t[1][:len(x0)-n])
		tailPool.Put(t)
	}
}
