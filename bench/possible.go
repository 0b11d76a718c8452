package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/registry"
)

// possible is the best that a workload could reach on this machine, in its unit.
type possible struct {
	limit   float64 // if all reading of a step overlapped with all its arithmetic
	byPhase float64 // if that were so within each phase alone; 0 if there are no phases
}

// bound is what the limits of a workload depend on besides the workload.
type bound struct {
	limits
	*model.Config
	storage
	cached float64 // bytes of a token's keys and values, in all layers
}

// work is what a phase computes and reads.
type work struct{ flops, bytes float64 }

// stage is a part of a workload, so many times: its phases one after the other.
type stage struct {
	times  float64
	phases []work
}

// seconds returns the least time for some work: the greater of arithmetic and reading.
func (b *bound) seconds(w work) float64 {
	return max(w.flops/(b.GFLOPs*1e9), w.bytes/(b.GBps*1e9))
}

// times returns the least seconds for stages.
func (b *bound) times(stages ...stage) (t possible) {
	for _, s := range stages {
		var whole work
		for _, phase := range s.phases {
			whole.flops, whole.bytes = whole.flops+phase.flops, whole.bytes+phase.bytes
			t.byPhase += s.times * b.seconds(phase)
		}
		t.limit += s.times * b.seconds(whole)
	}
	return t
}

// rates returns the most tokens a second.
func (b *bound) rates(tokens float64, stages ...stage) possible {
	t := b.times(stages...)
	return possible{tokens / t.limit, tokens / t.byPhase}
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

// cachedBytes returns the bytes of a token's keys and values, from the sampler's own plan.
func cachedBytes(path, dtype string) (float64, error) {
	const sequences, tokens = 2, 16 // a page each
	opener, err := registry.Samplers.Build("cpu")
	if err != nil {
		return 0, err
	}
	parts, err := opener.PlanMemory(samplerSpec(&assignment{Model: path, Batch: sequences, Prompt: tokens, DType: dtype}))
	if err != nil {
		return 0, err
	}
	for _, p := range parts {
		if p.Kind == "KV cache" {
			return float64(p.Bytes) / (sequences * tokens), nil
		}
	}
	return 0, fmt.Errorf("the sampler plans no KV cache: its parts are %v", parts)
}

// draftless makes a sampler take no drafts, which would decode more than a token a step. Samplers of commits before that take none.
var draftless = func(*engine.SamplerSpec) {}

// samplerSpec is what opens the sampler of an assignment.
func samplerSpec(a *assignment) engine.SamplerSpec {
	spec := engine.SamplerSpec{ModelPath: a.Model, MaxSequences: a.Batch, MaxModelLen: a.Prompt + a.New}
	draftless(&spec)
	if a.DType != "f32" {
		spec.Quantization = a.DType
	}
	return spec
}

// layers and head count the weights of a model's matrices.
func (b *bound) layers() float64 {
	h, kv, q := float64(b.HiddenSize), float64(b.NumKVHeads*b.HeadDim), float64(b.NumHeads*b.HeadDim)
	return float64(b.NumLayers) * (h*(q+2*kv) + q*h + 3*h*float64(b.IntermediateSize))
}

func (b *bound) head() float64 { return float64(b.HiddenSize) * float64(b.VocabSize) }

// products are those of some rows with weights in the sampler's storage, which are read once.
func (b *bound) products(rows, weights float64) work {
	return work{2 * rows * weights / b.rate, b.bytes * weights}
}

// attention is the operations of queries over context keys each, in all layers, and the reading of cached tokens.
func (b *bound) attention(queries, context, cached float64) work {
	return work{4 * queries * context * float64(b.NumHeads*b.HeadDim*b.NumLayers), b.cached * cached}
}

// prefill computes prompts of n tokens; the head runs on the last token of each alone. Their keys and values are in the caches.
func (b *bound) prefill(prompts, n float64) stage {
	return stage{1, []work{b.products(prompts*n, b.layers()), b.attention(prompts*n, n/2, 0), b.products(prompts, b.head())}}
}

// decode is the steps that sample each token of a workload's sequences. A group's sequences read their prompt once.
func (b *bound) decode(w *workload, prompt float64) stage {
	rows, own := float64(w.rows), float64(w.new)/2
	cached := rows/float64(max(1, w.copies))*prompt + rows*own
	return stage{float64(w.new), []work{b.products(rows, b.layers()+b.head()), b.attention(rows, prompt+own, cached)}}
}

// training is both passes of some tokens, of which the loss needs trained, and AdamW. Each weight has three products; attention's
// backward makes 2.5 times its forward's operations. AdamW reads weight, gradient and two moments in f32, and writes all but the gradient.
func (b *bound) training(tokens, trained float64, attention work) stage {
	attention.flops *= 3.5
	layers, head := work{flops: 6 * tokens * b.layers()}, work{flops: 6 * trained * b.head()}
	return stage{1, []work{layers, head, attention, {bytes: 7 * 4 * (b.layers() + b.head())}}}
}

func trainLimit(b *bound, w *workload) possible {
	n := float64(w.rows * w.prompt)
	return b.rates(n, b.training(n, n, b.attention(n, float64(w.prompt)/2, 0)))
}

func decodeLimit(b *bound, w *workload) possible {
	return b.rates(float64(w.rows*w.new), b.decode(w, float64(w.prompt)))
}

func prefillLimit(b *bound, w *workload) possible {
	return b.rates(float64(w.rows*w.prompt), b.prefill(float64(w.rows), float64(w.prompt)))
}

// rolloutLimit: prompts are computed once per group; the tokens are those sampled.
func rolloutLimit(b *bound, w *workload) possible {
	prompt := float64(w.prompt)
	return b.rates(float64(w.rows*w.new), b.prefill(float64(w.rows/w.copies), prompt), b.decode(w, prompt))
}

// grpoLimit is in seconds: prompts are computed once per group, in the rollout and in training; the head on what was sampled alone.
func grpoLimit(b *bound, w *workload) possible {
	const prompt = 110 // of a question with its chat, about
	prompts, sampled := float64(w.rows/w.copies), float64(w.rows*w.new)
	ofPrompts, ofReplies := b.attention(prompts*prompt, prompt/2, 0), b.attention(sampled, prompt+float64(w.new)/2, 0)
	both := work{flops: ofPrompts.flops + ofReplies.flops}
	return b.times(b.prefill(prompts, prompt), b.decode(w, prompt), b.training(prompts*prompt+sampled, sampled, both))
}
