package kernel

import (
	"hash"
	"hash/fnv"
	"math"
	"math/rand/v2"
)

// rejected names the sets that this processor can run, but that give other bits than portable on
// it.
var rejected []string

// Rejected returns the names of the sets that compute other bits than portable on this processor.
// That is a defect of a kernel or of the processor, so these sets are not used.
func Rejected() []string { return rejected }

// agreeing returns the sets whose results on a small fixed workload equal portable's, bit for bit.
// The workload takes a few milliseconds, most of them in portable.
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

// digest hashes the results of all kernels of the set for fixed operands. It leaves ks active.
func (ks *kernels) digest() uint64 {
	active.Store(ks)
	d := digester{rng: rand.New(rand.NewPCG(1, 2)), hash: fnv.New64a()}
	d.products()
	d.packedProducts()
	d.layers()
	d.attention()
	d.vectors()
	return d.hash.Sum64()
}

// digester draws operands and hashes results.
type digester struct {
	rng  *rand.Rand
	hash hash.Hash64
}

func (d *digester) random(rows, cols int) Matrix {
	m := NewMatrix(make([]float32, rows*cols), rows, cols)
	for i := range m.Data {
		m.Data[i] = float32(d.rng.NormFloat64())
	}
	return m
}

func (d *digester) note(results ...[]float32) {
	for _, v := range results {
		for _, x := range v {
			b := math.Float32bits(x)
			d.hash.Write([]byte{byte(b), byte(b >> 8), byte(b >> 16), byte(b >> 24)})
		}
	}
}

// allPanels is a number of columns that needs tiles of 8, 4, 2 and 1 panels, if tiles can be so
// wide.
const allPanels = (8 + 4 + 2 + 1) * lanes

// products computes products that pack both operands, with partial tiles of all kinds.
func (d *digester) products() {
	for _, shape := range [][3]int{{1, 40, 37}, {13, 50, 33}, {30, 17, 65}} { // m, n, k
		m, n, k := shape[0], shape[1], shape[2]
		a, w, c := d.random(m, k), d.random(n, k), d.random(m, n)
		MatMul(nil, c, a, w.T(), true)
		d.note(c.Data)
		MatMul(nil, a, c, w, false)
		d.note(a.Data)
		MatMul(nil, w, c.T(), a, true)
		d.note(w.Data)
	}
}

// packedProducts uses tiles of each height and width, in each storage.
func (d *digester) packedProducts() {
	const k = 70 // more than a block of 8-bit weights
	w := d.random(allPanels, k)
	for _, storage := range []Packed{
		{N: allPanels, K: k, f32: alignedFloats(allPanels * k)}, {N: allPanels, K: k, pairs: make([]uint32, allPanels*k/2)},
		{N: allPanels, K: k, int8: make([]int8Weights, allPanels/lanes*int8Blocks(k))},
	} {
		storage.Pack(nil, w.T())
		for rows := 1; rows <= maxRows; rows++ {
			x, y := d.random(rows, k), d.random(rows, allPanels)
			MatMulPacked(nil, y, x, &storage, rows%2 == 0)
			d.note(y.Data)
		}
	}
}

// layers computes the operations between the products of a model, and its loss.
func (d *digester) layers() {
	const rows, cols = 3, 53
	x, y, z, weight := d.random(rows, cols), d.random(rows, cols), d.random(rows, cols), d.random(1, cols).Data
	stats := make([]float32, 3*rows)
	RMSNorm(nil, y, x, weight, 1e-6, stats[:rows])
	RMSNormBackward(nil, z, y, x, weight, stats[:rows], weight)
	d.note(y.Data, z.Data, weight)
	SiLU.Forward(nil, y, x, z)
	SiLU.Backward(nil, x, z, y, x, z)
	d.note(x.Data, y.Data, z.Data)
	GELU.Forward(nil, y, x, z)
	GELU.Backward(nil, x, z, y, x, z)
	d.note(x.Data, y.Data, z.Data)
	heads, cos, sin := d.random(rows, 80), d.random(rows, 20), d.random(rows, 20)
	RoPE(nil, heads, 40, cos, sin, []int32{2, 0, 1})
	d.note(heads.Data)
	conv := NewShortConv(make([]float32, rows*cols), d.random(cols, rows).Data, cols)
	gates, dgates := d.random(rows, 3*cols), d.random(rows, 3*cols)
	segments := []Segment{{Start: 0, Len: 1, Prefix: -1}, {Start: 1, Len: 1}, {Start: 2, Len: 1}}
	conv.Forward(nil, y, x, gates, segments)
	dweight := make([]float32, rows*cols)
	conv.Backward(nil, dgates, dweight, y, gates, segments)
	d.note(y.Data, dgates.Data, dweight)
	targets, grads := []int32{0, 17, 52}, []float32{1, -0.5, 0.25}
	logits, logprob := d.random(rows, cols), make([]float32, rows)
	LogitStats(nil, logits, targets, stats[:rows], stats[rows:2*rows], logprob)
	LogitBackward(nil, logits, targets, stats[:rows], stats[rows:2*rows], grads, grads)
	d.note(logits.Data, stats, logprob)
}

func (d *digester) attention() {
	const rows, dim = 40, 24
	a := Attention{Heads: 2, KVHeads: 1, HeadDim: dim, Scale: 0.2}
	segments := []Segment{{Start: 0, Len: rows, Prefix: -1}}
	q, k, v, out, lse, dout := d.random(rows, 2*dim), d.random(rows, dim), d.random(rows, dim), d.random(rows, 2*dim), d.random(rows, 2), d.random(rows, 2*dim)
	dq, dk, dv := d.random(rows, 2*dim), d.random(rows, dim), d.random(rows, dim)
	a.Forward(nil, out, lse, q, k, v, segments)
	a.Backward(nil, dq, dk, dv, dout, out, lse, q, k, v, segments)
	d.note(out.Data, lse.Data, dq.Data, dk.Data, dv.Data)
}

func (d *digester) vectors() {
	const n = 53
	x, y, z, variance := d.random(1, n).Data, d.random(1, n).Data, d.random(1, n).Data, d.random(1, n).Data
	Exp(variance, x) // positive
	adam := AdamW{LearningRate: .1, Beta1: .9, Beta2: .99, Eps: 1e-8, WeightDecay: .1, Correction1: .1, Correction2: .01, GradScale: .5}.Prepare()
	adam.Update(x, y, z, variance)
	d.note(x, z, variance)
	Axpy(y, z, 0.37)
	AddTo(y, x)
	Scale(z, y, 0.7)
	d.note(y, z, []float32{Dot(y, z), Max(z), LogSumExp(z)})
	RoundToBF16(nil, y)
	d.note(y)
}
