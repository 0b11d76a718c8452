package kernel

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
)

// rejected are the sets that this processor can run but that do not give portable's bits on it.
var rejected []string

// Rejected names the sets that were found to compute other bits than portable here. That is a defect of a kernel or of the processor; they are
// not used.
func Rejected() []string { return rejected }

// agreeing are the sets whose results on a small fixed workload equal portable's, bit for bit. Running it takes a few milliseconds, most
// of them portable's.
func agreeing() []*kernels {
	want := portable.digest()
	var good []*kernels
	rejected = nil
	for _, s := range sets {
		if s == &portable || s.digest() == want {
			good = append(good, s)
		} else {
			rejected = append(rejected, s.name)
		}
	}
	return good
}

// digest hashes what every kind of kernel makes of fixed numbers. It leaves ks active.
func (ks *kernels) digest() uint64 {
	active.Store(ks)
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(rows, cols int) Matrix {
		m := NewMatrix(make([]float32, rows*cols), rows, cols)
		for i := range m.Data {
			m.Data[i] = float32(rng.NormFloat64())
		}
		return m
	}
	h := fnv.New64a()
	note := func(v ...float32) {
		for _, x := range v {
			b := math.Float32bits(x)
			h.Write([]byte{byte(b), byte(b >> 8), byte(b >> 16), byte(b >> 24)})
		}
	}
	for _, shape := range [][3]int{{1, 40, 37}, {13, 50, 33}, {30, 17, 65}} { // m, n, k
		m, n, k := shape[0], shape[1], shape[2]
		a, w, c := random(m, k), random(n, k), random(m, n)
		MatMul(nil, c, a, w.T(), true)
		note(c.Data...)
		MatMul(nil, a, c, w, false)
		note(a.Data...)
		MatMul(nil, w, c.T(), a, true)
		note(w.Data...)
	}
	for _, rows := range []int{1, 30} {
		x, w, y := random(rows, 150), random(20, 150), random(rows, 20)
		packed := &Packed{N: w.Rows, K: w.Cols, int8: make([]int8Weights, 2*int8Blocks(w.Cols))}
		packed.Pack(nil, w.T())
		MatMulPacked(nil, y, x, packed, true)
		note(y.Data...)
	}
	const rows, cols = 3, 53
	x, y, z, weight := random(rows, cols), random(rows, cols), random(rows, cols), random(1, cols).Data
	stats := make([]float32, 3*rows)
	RMSNorm(nil, y, x, weight, 1e-6, stats[:rows])
	RMSNormBackward(nil, z, y, x, weight, stats[:rows], weight)
	note(append(append(y.Data, z.Data...), weight...)...)
	SwiGLU(nil, y, x, z)
	SwiGLUBackward(nil, x, z, y, x, z)
	note(append(append(x.Data, y.Data...), z.Data...)...)
	targets, grads := []int32{0, 17, 52}, []float32{1, -0.5, 0.25}
	logits := random(rows, cols)
	logprob := make([]float32, rows)
	LogitStats(nil, logits, targets, stats[:rows], stats[rows:2*rows], logprob)
	LogitBackward(nil, logits, targets, stats[:rows], stats[rows:2*rows], grads, grads)
	note(append(append(logits.Data, stats...), logprob...)...)
	Exp(y.Data, x.Data)
	Axpy(y.Data, z.Data, 0.37)
	note(y.Data...)
	note(Dot(y.Data, z.Data), Max(z.Data), LogSumExp(z.Data))
	return h.Sum64()
}
