package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// widths have whole lanes, part lanes and both.
var widths = []int{1, 7, 16, 33, 64, 100, 576}

// rowOp is a forward operation with its backward one: outputs as a function of inputs, and the
// gradient of Σ outputs·dout by each input.
type rowOp struct {
	name      string
	inputs    func(r *rand.Rand, cols int) [][]float32 // all [rows*cols] or [cols]
	forward   func(pool *Pool, in [][]float32, cols int) []float32
	backward  func(pool *Pool, in [][]float32, dout []float32, cols int) [][]float32
	reference func(in [][]float64, cols int) []float64
	even      bool // cols must be even
}

const opRows = 5

func rowMatrix(data []float32, cols int) Matrix { return NewMatrix(data, len(data)/cols, cols) }

func like(m Matrix) Matrix { return zeros(m.Rows, m.Cols) }

var rowOps = []rowOp{
	{
		name: "RMSNorm",
		inputs: func(r *rand.Rand, cols int) [][]float32 {
			return [][]float32{random(r, opRows*cols), random(r, cols)}
		},
		forward: func(pool *Pool, in [][]float32, cols int) []float32 {
			x := rowMatrix(in[0], cols)
			y := like(x)
			RMSNorm(pool, y, x, in[1], 1e-3, nil)
			return y.Data
		},
		backward: func(pool *Pool, in [][]float32, dout []float32, cols int) [][]float32 {
			x := rowMatrix(in[0], cols)
			dx, dw, rstd := like(x), make([]float32, cols), make([]float32, opRows)
			RMSNorm(pool, like(x), x, in[1], 1e-3, rstd)
			RMSNormBackward(pool, dx, rowMatrix(dout, cols), x, in[1], rstd, dw)
			return [][]float32{dx.Data, dw}
		},
		reference: func(in [][]float64, cols int) []float64 {
			y := make([]float64, len(in[0]))
			for i := 0; i < len(y); i += cols {
				sum := 0.0
				for _, v := range in[0][i : i+cols] {
					sum += v * v
				}
				for j := range cols {
					y[i+j] = in[0][i+j] / math.Sqrt(sum/float64(cols)+1e-3) * in[1][j]
				}
			}
			return y
		},
	}, {
		name: "SwiGLU",
		inputs: func(r *rand.Rand, cols int) [][]float32 {
			return [][]float32{random(r, opRows*cols), random(r, opRows*cols)}
		},
		forward: func(pool *Pool, in [][]float32, cols int) []float32 {
			gate := rowMatrix(in[0], cols)
			y := like(gate)
			SiLU.Forward(pool, y, gate, rowMatrix(in[1], cols))
			return y.Data
		},
		backward: func(pool *Pool, in [][]float32, dout []float32, cols int) [][]float32 {
			gate, up := clone(rowMatrix(in[0], cols)), clone(rowMatrix(in[1], cols))
			SiLU.Backward(pool, gate, up, rowMatrix(dout, cols), gate, up)
			return [][]float32{gate.Data, up.Data}
		},
		reference: func(in [][]float64, _ int) []float64 {
			y := make([]float64, len(in[0]))
			for i, g := range in[0] {
				y[i] = g / (1 + math.Exp(-g)) * in[1][i]
			}
			return y
		},
	}, {
		name: "GeGLU",
		inputs: func(r *rand.Rand, cols int) [][]float32 {
			return [][]float32{random(r, opRows*cols), random(r, opRows*cols)}
		},
		forward: func(pool *Pool, in [][]float32, cols int) []float32 {
			gate := rowMatrix(in[0], cols)
			y := like(gate)
			GELU.Forward(pool, y, gate, rowMatrix(in[1], cols))
			return y.Data
		},
		backward: func(pool *Pool, in [][]float32, dout []float32, cols int) [][]float32 {
			gate, up := clone(rowMatrix(in[0], cols)), clone(rowMatrix(in[1], cols))
			GELU.Backward(pool, gate, up, rowMatrix(dout, cols), gate, up)
			return [][]float32{gate.Data, up.Data}
		},
		reference: func(in [][]float64, _ int) []float64 {
			y := make([]float64, len(in[0]))
			for i, g := range in[0] {
				y[i] = g / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(g+0.044715*g*g*g))) * in[1][i]
			}
			return y
		},
	}, {
		name: "AddBias",
		inputs: func(r *rand.Rand, cols int) [][]float32 {
			return [][]float32{random(r, opRows*cols), random(r, cols)}
		},
		forward: func(pool *Pool, in [][]float32, cols int) []float32 {
			y := clone(rowMatrix(in[0], cols))
			AddBias(pool, y, in[1])
			return y.Data
		},
		backward: func(pool *Pool, in [][]float32, dout []float32, cols int) [][]float32 {
			db := make([]float32, cols)
			AddBiasBackward(pool, db, rowMatrix(dout, cols))
			return [][]float32{dout, db}
		},
		reference: func(in [][]float64, cols int) []float64 {
			y := make([]float64, len(in[0]))
			for i, v := range in[0] {
				y[i] = v + in[1][i%cols]
			}
			return y
		},
	},
}

func init() {
	rowOps = append(rowOps,
		ropeOp("RoPE", func(headDim int) int { return headDim }),
		ropeOp("RoPE of a part of each head", func(headDim int) int { return (3*headDim/4 + 1) &^ 1 }),
		rowOp{
			name:   "ScaleByPosition",
			inputs: func(r *rand.Rand, cols int) [][]float32 { return [][]float32{random(r, opRows*cols)} },
			forward: func(pool *Pool, in [][]float32, cols int) []float32 {
				return scaledRows(pool, in[0], cols)
			},
			backward: func(pool *Pool, _ [][]float32, dout []float32, cols int) [][]float32 {
				return [][]float32{scaledRows(pool, dout, cols)}
			},
			reference: func(in [][]float64, cols int) []float64 {
				y := make([]float64, len(in[0]))
				for i, x := range in[0] {
					y[i] = x * float64(rowFactors[rowPositions[i/cols]])
				}
				return y
			},
		})
}

// rowPositions are a position of 8 for each row, rowFactors a factor for each position.
var (
	rowPositions = []int32{0, 7, 3, 1, 5}
	rowFactors   = []float32{1, 1, 1, 1.25, 1.25, 1.5, 1.5, -2}
)

func scaledRows(pool *Pool, x []float32, cols int) []float32 {
	y := clone(rowMatrix(x, cols))
	ScaleByPosition(pool, y, rowFactors, rowPositions)
	return y.Data
}

// ropeOp rotates two heads, of each of which rotated returns how many elements.
func ropeOp(name string, rotated func(headDim int) int) rowOp {
	return rowOp{
		name: name, even: true,
		inputs: func(r *rand.Rand, cols int) [][]float32 { return [][]float32{random(r, opRows*2*cols)} },
		forward: func(pool *Pool, in [][]float32, cols int) []float32 {
			x := clone(NewMatrix(in[0], opRows, 2*cols))
			cos, sin := ropeTables(rotated(cols))
			RoPE(pool, x, cols, cos, sin, rowPositions)
			return x.Data
		},
		backward: func(pool *Pool, _ [][]float32, dout []float32, cols int) [][]float32 {
			dx := clone(NewMatrix(dout, opRows, 2*cols))
			cos, sin := ropeTables(rotated(cols))
			RoPEBackward(pool, dx, cols, cos, sin, rowPositions)
			return [][]float32{dx.Data}
		},
		reference: func(in [][]float64, cols int) []float64 {
			y := append([]float64(nil), in[0]...)
			cos, sin := ropeTables(rotated(cols))
			half := rotated(cols) / 2
			for i := 0; i < len(y); i += cols {
				p := int(rowPositions[i/(2*cols)])
				for j := range half {
					c, s := at(cos, p, j), at(sin, p, j)
					y[i+j] = in[0][i+j]*c - in[0][i+j+half]*s
					y[i+j+half] = in[0][i+j+half]*c + in[0][i+j]*s
				}
			}
			return y
		},
	}
}

// ropeTables are cosines and sines for 8 positions.
func ropeTables(rotated int) (cos, sin Matrix) {
	cos, sin = zeros(8, rotated/2), zeros(8, rotated/2)
	for p := range 8 {
		for j := range rotated / 2 {
			angle := float64(p) * math.Pow(100, -2*float64(j)/float64(rotated))
			cos.Row(p)[j], sin.Row(p)[j] = float32(math.Cos(angle)), float32(math.Sin(angle))
		}
	}
	return cos, sin
}

func widen(in [][]float32) [][]float64 {
	out := make([][]float64, len(in))
	for i, v := range in {
		for _, x := range v {
			out[i] = append(out[i], float64(x))
		}
	}
	return out
}

// TestRowOps checks forward passes against float64, backward passes against finite differences of
// those, and both for equal bits across sets and pools.
func TestRowOps(t *testing.T) {
	pool := NewPool(3)
	defer pool.Close()
	firsts := map[string][]float32{}
	eachSet(t, func(t *testing.T) {
		for _, op := range rowOps {
			for _, cols := range widths {
				if op.even {
					cols += cols % 2
				}
				r := rand.New(rand.NewPCG(11, uint64(cols)))
				in := op.inputs(r, cols)
				name := fmt.Sprintf("%s/%d", op.name, cols)
				got := op.forward(pool, in, cols)
				want := op.reference(widen(in), cols)
				for i := range got {
					near(t, name, float64(got[i]), want[i], 2e-6)
				}
				dout := random(r, len(got))
				grads := op.backward(pool, in, dout, cols)
				checkGradients(t, name, op, in, dout, grads, cols)
				all := append([]float32(nil), got...)
				for _, g := range grads {
					all = append(all, g...)
				}
				if firsts[name] == nil {
					firsts[name] = all
				}
				sameBits(t, name+" in another set", all, firsts[name])
				sameBits(t, name+" on one core", op.forward(nil, in, cols), got)
			}
		}
	})
}

// checkGradients compares a few elements of each gradient with central differences in float64.
func checkGradients(t *testing.T, name string, op rowOp, in [][]float32, dout []float32, grads [][]float32, cols int) {
	t.Helper()
	const step = 1e-5
	loss := func(in [][]float64) (sum float64) {
		for i, y := range op.reference(in, cols) {
			sum += y * float64(dout[i])
		}
		return sum
	}
	wide := widen(in)
	for k, g := range grads {
		for _, i := range []int{0, len(g) / 2, len(g) - 1} {
			was := wide[k][i]
			wide[k][i] = was + step
			up := loss(wide)
			wide[k][i] = was - step
			down := loss(wide)
			wide[k][i] = was
			near(t, fmt.Sprintf("%s: gradient %d of input %d", name, i, k), float64(g[i]), (up-down)/(2*step), 3e-5)
		}
	}
}

// TestRMSNormBackwardAddsUp: dx and dweight are added to, and dweight does not depend on the number
// of cores.
func TestRMSNormBackwardAddsUp(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 1))
	const rows, cols = 70, 576
	x, dy, w := randomMatrix(r, rows, cols, 0), randomMatrix(r, rows, cols, 0), random(r, cols)
	rstd := make([]float32, rows)
	RMSNorm(nil, like(x), x, w, 1e-5, rstd)
	run := func(pool *Pool, dx Matrix, dw []float32) {
		RMSNormBackward(pool, dx, dy, x, w, rstd, dw)
	}
	dx, dw := like(x), make([]float32, cols)
	run(nil, dx, dw)
	dx4, dw4 := like(x), make([]float32, cols)
	pool := NewPool(4)
	defer pool.Close()
	run(pool, dx4, dw4)
	sameBits(t, "dx on four cores", dx4.Data, dx.Data)
	sameBits(t, "dweight on four cores", dw4, dw)
	run(nil, dx4, dw4)
	near(t, "dx twice", float64(dx4.Data[100]), 2*float64(dx.Data[100]), 1e-5)
	near(t, "dweight twice", float64(dw4[100]), 2*float64(dw[100]), 1e-5)
}
