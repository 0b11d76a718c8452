package main

import (
	"encoding/json"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/trinity-go/trinity/engine/cpu"
	"github.com/trinity-go/trinity/model"
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

// measureLimits measures the kernels with [cpu.MeasureSpeed], and multiply-adds that touch registers
// alone.
func measureLimits() (limits, error) {
	processor, err := cpu.ThisProcessor()
	if err != nil {
		return limits{}, err
	}
	speed, err := cpu.MeasureSpeed()
	if err != nil {
		return limits{}, err
	}
	best, typical := multiplyAdds(processor.Cores)
	return limits{
		GFLOPs: max(speed.Product, best), Sustained: typical, Product: speed.Product, GBps: speed.Read,
		Kernels: processor.Kernels,
	}, nil
}

// multiplyAdds returns the best and the median rate of multiply-adds that touch registers alone, in
// GFLOP/s of all cores, in the fastest of the loops that this processor runs. The two differ where the
// clock falls under load or the host has other guests.
func multiplyAdds(cores int) (best, typical float64) {
	const turns, runs = 1 << 20, 200 // about a second
	for _, loop := range fmaLoops() {
		var rates []float64
		for range runs {
			start := time.Now()
			var running sync.WaitGroup
			for range cores {
				running.Go(func() { loop.run(turns) })
			}
			running.Wait()
			rates = append(rates, float64(cores*turns*loop.flops)/time.Since(start).Seconds()/1e9)
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

// size counts a model's matrix weights.
type size struct{ layers, head float64 }

func sizeOf(c *model.Config) size {
	h, kv, q := float64(c.HiddenSize), float64(c.NumKVHeads*c.HeadDim), float64(c.NumHeads*c.HeadDim)
	layer := h*(q+2*kv) + q*h + 3*h*float64(c.IntermediateSize)
	return size{float64(c.NumLayers) * layer, h * float64(c.VocabSize)}
}

// attention is the operations of one query over context keys, in all layers.
func attention(c *model.Config, context float64) float64 {
	return 4 * context * float64(c.NumHeads*c.HeadDim*c.NumLayers)
}

// trainLimit: forward and backward are three products per weight; attention's backward makes 2.5 times its forward's operations.
func trainLimit(c *model.Config, l limits, w *workload, _ string) float64 {
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
func decodeTime(c *model.Config, l limits, w *workload, dtype string, context float64) float64 {
	s, rows := sizeOf(c), float64(w.rows)
	bytes := storages[dtype].bytes*(s.layers+s.head) + 4*rows*context*2*float64(c.NumKVHeads*c.HeadDim*c.NumLayers)
	return max(bytes/(l.GBps*1e9), rows*(2*(s.layers+s.head)/storages[dtype].rate+attention(c, context))/(l.GFLOPs*1e9))
}

func decodeLimit(c *model.Config, l limits, w *workload, dtype string) float64 {
	return float64(w.rows) / decodeTime(c, l, w, dtype, float64(w.prompt+w.new/2))
}

// prefillLimit: the head runs on the last token alone.
func prefillLimit(c *model.Config, l limits, w *workload, dtype string) float64 {
	s, n := sizeOf(c), float64(w.prompt)
	return l.GFLOPs * 1e9 / ((2*s.layers+2*s.head/n)/storages[dtype].rate + attention(c, n/2))
}

// rolloutLimit: prompts are computed once per group; the tokens are those sampled.
func rolloutLimit(c *model.Config, l limits, w *workload, dtype string) float64 {
	prefill := float64(w.rows/w.copies*w.prompt) / prefillLimit(c, l, w, dtype)
	return float64(w.rows*w.new) / (prefill + float64(w.new)*decodeTime(c, l, w, dtype, float64(w.prompt+w.new/2)))
}

// grpoLimit is in seconds: prompts are computed once per group, in the rollout and in training; the head on what was sampled alone.
func grpoLimit(c *model.Config, l limits, w *workload, _ string) float64 {
	const prompt = 110 // of a question with its chat, about
	s, flops := sizeOf(c), l.GFLOPs*1e9
	prompts, sampled := float64(w.rows/w.copies*prompt), float64(w.rows*w.new)
	context := float64(prompt + w.new/2)
	prefill := prompts * (2*s.layers + attention(c, prompt/2)) / flops
	decode := float64(w.new) * decodeTime(c, l, w, "f32", context)
	layers := prompts*(6*s.layers+3.5*attention(c, prompt/2)) + sampled*(6*s.layers+3.5*attention(c, context))
	return prefill + decode + (layers+sampled*6*s.head)/flops
}
