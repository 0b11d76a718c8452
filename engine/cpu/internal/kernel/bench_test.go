package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// layers are SmolLM2-135M's products x[M, k]·Wᵀ with W [n, k].
var layers = []struct {
	name string
	k, n int
}{{"qkv", 576, 960}, {"o", 576, 576}, {"gateup", 576, 3072}, {"down", 1536, 576}}

// arenaFloats is n floats in huge pages.
func arenaFloats(b *testing.B, n int) []float32 {
	b.Helper()
	arena := NewArena()
	b.Cleanup(func() {
		if err := arena.Free(); err != nil {
			b.Error(err)
		}
	})
	v, err := arena.Float32(n)
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for i := range v {
		v[i] = r.Float32() - 0.5
	}
	return v
}

// run times each call separately and also reports the rate of the fastest call, because other
// programs may have slowed the others.
func run(b *testing.B, flops, bytes float64, call func()) {
	best := time.Hour
	for b.Loop() {
		start := time.Now()
		call()
		best = min(best, time.Since(start))
	}
	if flops > 0 {
		b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		b.ReportMetric(flops/best.Seconds()/1e9, "best-GFLOP/s")
	}
	if bytes > 0 {
		b.ReportMetric(bytes/best.Seconds()/1e9, "best-GB/s")
	}
	b.ReportMetric(best.Seconds()*1e6, "best-µs")
}

// BenchmarkForward is x·Wᵀ with packed weights; small batches walk through 64 MiB of them, as a
// model's layers do.
func BenchmarkForward(b *testing.B) {
	for _, storage := range []Storage{F32, BF16, Int8} {
		for _, l := range append(layers, struct {
			name string
			k, n int
		}{"head", 576, 49152}) {
			for _, m := range []int{1, 4, 8, 32, 64, 256, 512, 2048} {
				if storage != F32 && m > 64 || l.name == "head" && m > 512 {
					continue
				}
				for _, threads := range []int{1, 2} {
					b.Run(fmt.Sprintf("%s/%s/M%d/threads%d", [...]string{"f32", "bf16", "int8"}[storage], l.name, m, threads), func(b *testing.B) {
						benchForward(b, storage, m, l.n, l.k, threads)
					})
				}
			}
		}
	}
}

func benchForward(b *testing.B, storage Storage, m, n, k, threads int) {
	pool := NewPool(threads)
	defer pool.Close()
	arena := NewArena()
	defer arena.Free()
	source := NewMatrix(arenaFloats(b, n*k), n, k)
	copies := 1
	if m <= 64 {
		copies = max(1, (64<<20)/(4*n*k))
	}
	var weights []*Packed
	for range copies {
		w, err := NewPacked(arena, n, k, storage)
		if err != nil {
			b.Fatal(err)
		}
		w.Pack(pool, source.T())
		weights = append(weights, w)
	}
	x, y := NewMatrix(arenaFloats(b, m*k), m, k), NewMatrix(arenaFloats(b, m*n), m, n)
	i := 0
	run(b, 2*float64(m)*float64(n)*float64(k), float64(n*k*[...]int{4, 2, 1}[storage]), func() {
		MatMulPacked(pool, y, x, weights[i%copies], false)
		i++
	})
}

// BenchmarkMatMul packs on the fly: NT forward, NN for dX, TN for dW.
func BenchmarkMatMul(b *testing.B) {
	for _, l := range layers {
		for _, m := range []int{256, 2048} {
			for _, threads := range []int{1, 2} {
				x, w, y := NewMatrix(arenaFloats(b, m*l.k), m, l.k), NewMatrix(arenaFloats(b, l.n*l.k), l.n, l.k), NewMatrix(arenaFloats(b, m*l.n), m, l.n)
				pool := NewPool(threads)
				kind := func(kind string, call func()) {
					b.Run(fmt.Sprintf("%s/%s/M%d/threads%d", kind, l.name, m, threads), func(b *testing.B) {
						run(b, 2*float64(m)*float64(l.n)*float64(l.k), 0, call)
					})
				}
				kind("NT", func() { MatMul(pool, y, x, w.T(), false) })
				kind("NN", func() { MatMul(pool, x, y, w, false) })
				kind("TN", func() { MatMul(pool, w, y.T(), x, true) })
				pool.Close()
			}
		}
	}
}

// BenchmarkPeak is one tile in the first-level cache: what the processor can do.
func BenchmarkPeak(b *testing.B) {
	ks := current()
	const k, n = 256, 64
	m := ks.rows
	a, w, c := alignedFloats(m*k), alignedFloats(n*k), alignedFloats(m*n)
	run(b, 2*float64(m*n*k), 0, func() {
		ks.product(operandC{c, n}, rowMajor(a, k), panelMajor(w, k), m, n, k, false)
	})
}

// BenchmarkAttention is SmolLM2's shape: 8 sequences of 256 tokens, 9 heads on 3, forward and
// backward.
func BenchmarkAttention(b *testing.B) {
	c := attentionCase{Attention: Attention{Heads: 9, KVHeads: 3, HeadDim: 64, Scale: 0.125}, rows: 2048}
	for i := range 8 {
		c.segments = append(c.segments, Segment{256 * i, 256, -1})
	}
	d := c.data(1)
	pool := NewPool(0)
	defer pool.Close()
	out, lse := c.forward(pool, d)
	dq, dk, dv := zeros(c.rows, d.q.Cols), zeros(c.rows, d.k.Cols), zeros(c.rows, d.k.Cols)
	flops := 4.0 * 8 * 9 * 64 * 256 * 257 / 2
	b.Run("forward", func(b *testing.B) {
		run(b, flops, 0, func() { c.Forward(pool, out, lse, d.q, d.k, d.v, c.segments) })
	})
	b.Run("backward", func(b *testing.B) {
		run(b, 2.5*flops, 0, func() { c.Backward(pool, dq, dk, dv, d.dout, out, lse, d.q, d.k, d.v, c.segments) })
	})
}

// BenchmarkPaged is SmolLM2's attention over pages: one new token in each of some sequences of 182
// tokens, 150 of them shared or none, and the last 256 tokens of a prompt of 512.
func BenchmarkPaged(b *testing.B) {
	a := Attention{Heads: 9, KVHeads: 3, HeadDim: 64, Scale: 0.125}
	pool := NewPool(0)
	defer pool.Close()
	bench := func(name string, views []View) {
		b.Run(name, func(b *testing.B) {
			arena := NewArena()
			defer arena.Free()
			kv, err := NewKVPages(arena, a, 1024, F32)
			if err != nil {
				b.Fatal(err)
			}
			Touch(pool, kv.keys)
			Touch(pool, kv.values)
			n := len(views)
			var plan Reading
			plan.Plan(a, pool, views)
			q, out := NewMatrix(arenaFloats(b, n*576), n, 576), zeros(n, 576)
			run(b, 0, 0, func() { a.Paged(pool, out, q, &kv, &plan) })
		})
	}
	pages := func(from, n int) (p []int32) {
		for i := range n {
			p = append(p, int32(from+i))
		}
		return p
	}
	for _, n := range []int{1, 8, 32, 64} {
		var shared, alone []View
		for i := range n {
			shared = append(shared, View{append(pages(0, 9), pages(9+i*4, 3)...), 182})
			alone = append(alone, View{pages(i*16, 12), 182})
		}
		bench(fmt.Sprintf("shared%d", n), shared)
		bench(fmt.Sprintf("alone%d", n), alone)
	}
	var prompt []View
	for i := range 256 {
		prompt = append(prompt, View{pages(0, 32), 257 + i})
	}
	bench("prompt", prompt)
}

// BenchmarkRows is the row operations on SmolLM2's shapes, with the memory they read and write.
func BenchmarkRows(b *testing.B) {
	pool := NewPool(0)
	defer pool.Close()
	const rows = 256
	x, y, z := NewMatrix(arenaFloats(b, rows*1536), rows, 1536), NewMatrix(arenaFloats(b, rows*1536), rows, 1536), NewMatrix(arenaFloats(b, rows*1536), rows, 1536)
	weight, rstd := arenaFloats(b, 1536), arenaFloats(b, rows)
	logits, lse, entropy := NewMatrix(arenaFloats(b, 64*49152), 64, 49152), make([]float32, 64), make([]float32, 64)
	params := [4][]float32{}
	for i := range params {
		params[i] = arenaFloats(b, 4<<20)
	}
	for _, op := range []struct {
		name  string
		bytes float64
		call  func()
	}{
		{"RMSNorm", 2 * rows * 1536 * 4, func() { RMSNorm(pool, y, x, weight, 1e-5, rstd) }},
		{"RMSNormBackward", 6 * rows * 1536 * 4, func() { RMSNormBackward(pool, z, y, x, weight, rstd, weight) }},
		{"SwiGLU", 3 * rows * 1536 * 4, func() { SiLU.Forward(pool, z, x, y) }},
		{"LogitStats", 64 * 49152 * 4, func() { LogitStats(pool, logits, nil, lse, entropy, nil) }},
		{"AdamW", 7 * 4 << 22, func() {
			adam := AdamW{LearningRate: 1e-9, Beta1: 0.9, Beta2: 0.99, Eps: 1, Correction1: 1, Correction2: 1, GradScale: 1}.Prepare()
			pool.runRows(4<<20, 1, func(from, to int) {
				adam.Update(params[0][from:to], params[1][from:to], params[2][from:to], params[3][from:to])
			})
		}},
	} {
		b.Run(op.name, func(b *testing.B) { run(b, 0, op.bytes, op.call) })
	}
}
