package main

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/trinity-go/trinity/engine/cpu/kernel"
	"github.com/trinity-go/trinity/modelfile"
)

// limits are what this machine can do, measured in the same session.
type limits struct {
	GFLOPs    float64 `json:"gflops"`              // f32 multiply-adds, counted as two, of all cores, from registers; those of Product where we have no such loop
	Sustained float64 `json:"sustained,omitempty"` // the same as they are half of the time; unknown where we have no such loop
	Product   float64 `json:"product,omitempty"`   // the same in the best matrix product of our kernels
	GBps      float64 `json:"gbps"`                // read from memory by all cores
	Kernels   string  `json:"kernels"`
}

// better takes the greater of each figure.
func (l limits) better(other limits) limits {
	return limits{GFLOPs: max(l.GFLOPs, other.GFLOPs), Sustained: max(l.Sustained, other.Sustained), Product: max(l.Product, other.Product),
		GBps: max(l.GBps, other.GBps), Kernels: l.Kernels}
}

// sayLimits writes what [measureLimits] finds as JSON.
func sayLimits(out io.Writer) error {
	l, err := measureLimits()
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(l)
}

// measureLimits times products that stay in the caches, and reads of an array that does not. The best time counts.
func measureLimits() (l limits, err error) {
	pool, arena := kernel.NewPool(0), kernel.NewArena()
	defer func() { err = errors.Join(err, arena.Free()) }()
	defer pool.Close()
	l.Kernels = kernel.Active()
	for _, shape := range [][3]int{{576, 512, 256}, {1152, 512, 256}, {1152, 1024, 256}, {2304, 512, 512}} {
		m, n, k := shape[0], shape[1], shape[2]
		product, err := newProduct(pool, arena, m, n, k)
		if err != nil {
			return l, err
		}
		l.Product = max(l.Product, 2*float64(m*n*k)/fastest(40, product)/1e9)
	}
	best, typical := multiplyAdds(pool)
	l.GFLOPs, l.Sustained = max(l.Product, best), typical
	const n, k = 1 << 15, 2048 // 256 MiB
	product, err := newProduct(pool, arena, 1, n, k)
	if err != nil {
		return l, err
	}
	l.GBps = 4 * n * k / fastest(12, product) / 1e9
	data, err := arena.Float32(n * k)
	if err != nil {
		return l, err
	}
	kernel.Touch(pool, data)
	const parts = 64
	scan := func(part int) { kernel.Max(data[part*n*k/parts : (part+1)*n*k/parts]) }
	l.GBps = max(l.GBps, 4*n*k/fastest(12, func() { pool.Run(parts, scan) })/1e9)
	return l, nil
}

// multiplyAdds are the best and the median rate of those that touch registers alone, in GFLOP/s of all cores, in the fastest of the loops that
// this processor runs. A clock that falls under load, or a host that has other guests, tells them apart.
func multiplyAdds(pool *kernel.Pool) (best, typical float64) {
	const turns, runs = 1 << 20, 200 // about a second
	for _, loop := range fmaLoops() {
		var rates []float64
		for range runs {
			start := time.Now()
			pool.Run(pool.Size(), func(int) { loop.run(turns) })
			rates = append(rates, float64(pool.Size()*turns*loop.flops)/time.Since(start).Seconds()/1e9)
		}
		best, typical = max(best, slices.Max(rates)), max(typical, median(rates))
	}
	return best, typical
}

// fmaLoop is a loop over independent multiply-adds; flops are those of a turn.
type fmaLoop struct {
	run   func(turns int)
	flops int
}

// newProduct is a call of y[m, n] = x[m, k]·w with packed weights.
func newProduct(pool *kernel.Pool, arena *kernel.Arena, m, n, k int) (func(), error) {
	x, errX := arena.Float32(m * k)
	y, errY := arena.Float32(m * n)
	w, errW := kernel.NewPacked(arena, n, k, kernel.F32)
	if err := errors.Join(errX, errY, errW); err != nil {
		return nil, err
	}
	w.Pack(pool, kernel.NewMatrix(make([]float32, n*k), n, k).T())
	return func() { kernel.MatMulPacked(pool, kernel.NewMatrix(y, m, n), kernel.NewMatrix(x, m, k), w, false) }, nil
}

// fastest is the shortest of n calls, in seconds.
func fastest(n int, call func()) float64 {
	call()
	best := time.Hour
	for range n {
		start := time.Now()
		call()
		best = min(best, time.Since(start))
	}
	return best.Seconds()
}

// size counts a model's matrix weights.
type size struct{ layers, head float64 }

func sizeOf(c *modelfile.Config) size {
	h, kv, q := float64(c.HiddenSize), float64(c.NumKVHeads*c.HeadDim), float64(c.NumHeads*c.HeadDim)
	layer := h*(q+2*kv) + q*h + 3*h*float64(c.IntermediateSize)
	return size{float64(c.NumLayers) * layer, h * float64(c.VocabSize)}
}

// attention is the operations of one query over context keys, in all layers.
func attention(c *modelfile.Config, context float64) float64 {
	return 4 * context * float64(c.NumHeads*c.HeadDim*c.NumLayers)
}

// trainLimit: forward and backward are three products per weight; attention's backward makes 2.5 times its forward's operations.
func trainLimit(c *modelfile.Config, l limits, w *workload, _ string) float64 {
	s := sizeOf(c)
	return l.GFLOPs * 1e9 / (6*(s.layers+s.head) + 3.5*attention(c, float64(w.prompt)/2))
}

// storage is how the sampler keeps its matrices: the bytes of a weight, and how many times the rate of f32 its arithmetic could have.
type storage struct{ bytes, rate float64 }

// storages by what --dtype says. bf16 is computed with in f32; of 8-bit products, whose 64 weights have a scale, a
// processor makes four for one of f32 at best.
var storages = map[string]storage{"": {4, 1}, "f32": {4, 1}, "bf16": {2, 1}, int8Weights: {1 + 4./64, 4}}

// storageNames are those that can be chosen.
func storageNames() []string {
	names := slices.Sorted(maps.Keys(storages))
	return slices.DeleteFunc(names, func(n string) bool { return n == "" })
}

// decodeTime is the least time of a step, in seconds: the weights and every sequence's keys and values, these in f32, are read once while the
// arithmetic goes on.
func decodeTime(c *modelfile.Config, l limits, w *workload, dtype string, context float64) float64 {
	s, rows := sizeOf(c), float64(w.rows)
	bytes := storages[dtype].bytes*(s.layers+s.head) + 4*rows*context*2*float64(c.NumKVHeads*c.HeadDim*c.NumLayers)
	return max(bytes/(l.GBps*1e9), rows*(2*(s.layers+s.head)/storages[dtype].rate+attention(c, context))/(l.GFLOPs*1e9))
}

func decodeLimit(c *modelfile.Config, l limits, w *workload, dtype string) float64 {
	return float64(w.rows) / decodeTime(c, l, w, dtype, float64(w.prompt+w.new/2))
}

// prefillLimit: the head runs on the last token alone.
func prefillLimit(c *modelfile.Config, l limits, w *workload, dtype string) float64 {
	s, n := sizeOf(c), float64(w.prompt)
	return l.GFLOPs * 1e9 / ((2*s.layers+2*s.head/n)/storages[dtype].rate + attention(c, n/2))
}

// rolloutLimit: prompts are computed once per group; the tokens are those sampled.
func rolloutLimit(c *modelfile.Config, l limits, w *workload, dtype string) float64 {
	prefill := float64(w.rows/w.copies*w.prompt) / prefillLimit(c, l, w, dtype)
	return float64(w.rows*w.new) / (prefill + float64(w.new)*decodeTime(c, l, w, dtype, float64(w.prompt+w.new/2)))
}

// grpoLimit is in seconds: prompts are computed once per group, in the rollout and in training; the head on what was sampled alone.
func grpoLimit(c *modelfile.Config, l limits, w *workload, _ string) float64 {
	const prompt = 110 // of a question with its chat, about
	s, flops := sizeOf(c), l.GFLOPs*1e9
	prompts, sampled := float64(w.rows/w.copies*prompt), float64(w.rows*w.new)
	context := float64(prompt + w.new/2)
	prefill := prompts * (2*s.layers + attention(c, prompt/2)) / flops
	decode := float64(w.new) * decodeTime(c, l, w, "f32", context)
	layers := prompts*(6*s.layers+3.5*attention(c, prompt/2)) + sampled*(6*s.layers+3.5*attention(c, context))
	return prefill + decode + (layers+sampled*6*s.head)/flops
}
