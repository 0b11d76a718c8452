package torch

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/internal/model/safetensors"
)

// batch is a micro-batch as the worker gets it. Only experiences with trained tokens travel, and of
// them the tokens up to the last trained one.
type batch struct {
	all      []*trinity.Experience
	sent     []int // indices of the experiences that travel
	lengths  []int32
	ranks    []int32
	teachers []string // models to compare with
	teacher  []int32  // of each sequence, an index of teachers
	tokens   int
	routes   experience.Routes // of experts that the worker replays; zero if none travel
	columns  int               // most targets of a token; 0 if no sequence has others than its tokens
}

// length returns the number of tokens that the engine computes of an experience: up to the last
// trained one.
func length(x *trinity.Experience) int {
	for t := len(x.Mask) - 1; t > 0; t-- {
		if x.Mask[t] {
			return t + 1
		}
	}
	return 0
}

// newBatch packs experiences in the rows that the ranks of an engine compute at once.
func newBatch(xs []*trinity.Experience, e *workerModel) *batch {
	b := &batch{all: xs}
	for i, x := range xs {
		if n := length(x); n > 0 {
			b.sent, b.lengths, b.tokens = append(b.sent, i), append(b.lengths, int32(n)), b.tokens+n
			if e.spec.Head == engine.LogprobHead {
				b.columns = max(b.columns, len(x.Targets)/len(x.Tokens))
			}
			if e.spec.Replay && len(x.Experts) > 0 {
				b.routes = e.cfg.Mixture.Routes()
			}
		}
	}
	b.ranks = b.spread(e.piece())
	return b
}

// compare names the teachers of the sequences, by the models that hold them.
func (b *batch) compare(teachers map[string]*workerModel) error {
	for _, i := range b.sent {
		t := teachers[b.all[i].Teacher]
		if t == nil {
			return fmt.Errorf("torch: experience %s names teacher %q; the engine has the teachers %q", b.all[i].ID, b.all[i].Teacher,
				slices.Sorted(maps.Keys(teachers)))
		}
		at := slices.Index(b.teachers, t.name)
		if at < 0 {
			at, b.teachers = len(b.teachers), append(b.teachers, t.name)
		}
		b.teacher = append(b.teacher, int32(at))
	}
	return nil
}

// arrays returns the arrays of a forward request.
func (b *batch) arrays() []safetensors.Entry {
	tokens, mask, temperature := make([]int32, 0, b.tokens), make([]byte, 0, b.tokens), make([]float32, 0, len(b.sent))
	for k, i := range b.sent {
		x := b.all[i]
		for t := range int(b.lengths[k]) {
			scored := byte(0)
			if x.Mask[t] {
				scored = 1
			}
			tokens, mask = append(tokens, x.Tokens[t]), append(mask, scored)
		}
		temperature = append(temperature, cmp.Or(x.Temperature, 1))
	}
	all := []safetensors.Entry{
		safetensors.Int32s("tokens", tokens), safetensors.Int32s("lengths", b.lengths), safetensors.Int32s("rank", b.ranks),
		safetensors.Bytes("mask", mask), safetensors.Float32s("temperature", []int{len(temperature)}, temperature),
	}
	if b.teacher != nil {
		all = append(all, safetensors.Int32s("teacher", b.teacher))
	}
	if b.columns > 0 {
		all = append(all, b.targets())
	}
	if b.routes.Layers > 0 {
		all = append(all, b.experts())
	}
	return all
}

// none is the target of a column that a sequence does not have.
const none = -1

// experts returns the experts [N, layers with experts · k]. A sequence's last token, which predicts nothing, and sequences
// whose experts nobody has recorded have none.
func (b *batch) experts() safetensors.Entry {
	width := b.routes.Layers * b.routes.PerToken
	all, at := slices.Repeat([]int32{none}, b.tokens*width), 0
	for n, i := range b.sent {
		if x := b.all[i]; len(x.Experts) > 0 {
			for k := range (int(b.lengths[n]) - 1) * width {
				all[at+k] = b.routes.At(x.Experts, k)
			}
		}
		at += int(b.lengths[n]) * width
	}
	entry := safetensors.Int32s("experts", all)
	entry.Shape = []int{b.tokens, width}
	return entry
}

// targets returns the targets [N, columns]. Sequences without any have their tokens in the first column.
func (b *batch) targets() safetensors.Entry {
	all, at := slices.Repeat([]int32{none}, b.tokens*b.columns), 0
	for n, i := range b.sent {
		x := b.all[i]
		own := x.Targets
		if own == nil {
			own = x.Tokens
		}
		for t := range int(b.lengths[n]) {
			copy(all[(at+t)*b.columns:], rowOf(x, own, t))
		}
		at += int(b.lengths[n])
	}
	entry := safetensors.Int32s("targets", all)
	entry.Shape = []int{b.tokens, b.columns}
	return entry
}

// rowOf returns the part of numbers, as many for each token of x, that belongs to token t.
func rowOf[N any](x *trinity.Experience, numbers []N, t int) []N {
	k := len(numbers) / len(x.Tokens)
	return numbers[t*k : (t+1)*k]
}

// width returns how many numbers of a stream a token has in the request, and their shape.
func (b *batch) width(stream string) (n int, shape []int) {
	if stream != "logprob" || b.columns == 0 {
		return 1, []int{b.tokens}
	}
	return b.columns, []int{b.tokens, b.columns}
}

// numbersOf returns how many numbers of a stream an experience has.
func numbersOf(x *trinity.Experience, stream string) int {
	if stream == "logprob" {
		return max(len(x.Tokens), len(x.Targets))
	}
	return len(x.Tokens)
}

// stats gives each experience its part of the streams. Those that did not travel get zeros.
func (b *batch) stats(streams []string, answer reply) ([]trinity.TokenStats, error) {
	stats := make([]trinity.TokenStats, len(b.all))
	for _, name := range streams {
		for i, x := range b.all {
			*streamOf(&stats[i], name) = make([]float32, numbersOf(x, name))
		}
		if b.tokens == 0 {
			continue
		}
		k, _ := b.width(name)
		flat, err := answer.stream(name, b.tokens*k)
		if err != nil {
			return nil, err
		}
		at := 0
		for n, i := range b.sent {
			x, to := b.all[i], *streamOf(&stats[i], name)
			for t := range int(b.lengths[n]) {
				copy(rowOf(x, to, t), flat[(at+t)*k:])
			}
			at += int(b.lengths[n])
		}
	}
	return stats, nil
}

func streamOf(s *trinity.TokenStats, name string) *[]float32 {
	return map[string]*[]float32{
		"logprob": &s.Logprob, "entropy": &s.Entropy, "value": &s.Value, "discriminator": &s.Discriminator, "divergence": &s.Divergence,
	}[name]
}

// derivatives returns the arrays of a backward request; none if all derivatives are 0, as for a group
// whose rewards are equal.
func (b *batch) derivatives(streams []string, grads []trinity.TokenGrads) ([]safetensors.Entry, error) {
	if len(grads) != len(b.all) {
		return nil, fmt.Errorf("torch: the loss returned %d gradients for %d experiences", len(grads), len(b.all))
	}
	var all []safetensors.Entry
	for _, name := range []string{"logprob", "entropy", "value", "divergence"} {
		for i, x := range b.all {
			v := gradOf(&grads[i], name)
			switch {
			case v != nil && !slices.Contains(streams, name):
				return nil, fmt.Errorf("torch: the loss returned derivatives by %s, which it did not ask for or this engine's head does not compute",
					name)
			case v != nil && len(v) != numbersOf(x, name):
				return nil, fmt.Errorf("torch: the loss returned %d derivatives by %s for experience %s; want %d", len(v), name, x.ID,
					numbersOf(x, name))
			case grads[i].Score != 0:
				return nil, fmt.Errorf("torch: the loss returned a derivative by the score of experience %s, which it did not ask for", x.ID)
			}
		}
		flat, needed, err := b.flat(grads, name)
		if err != nil {
			return nil, err
		}
		if needed {
			_, shape := b.width(name)
			all = append(all, safetensors.Float32s("d_"+name, shape, flat))
		}
	}
	return all, nil
}

// flat joins the derivatives by one stream. needed is false if all are 0.
func (b *batch) flat(grads []trinity.TokenGrads, name string) (flat []float32, needed bool, err error) {
	k, _ := b.width(name)
	flat = make([]float32, b.tokens*k)
	at := 0
	for n, i := range b.sent {
		v, x := gradOf(&grads[i], name), b.all[i]
		for t := range int(b.lengths[n]) {
			if v == nil || !x.Mask[t] {
				continue
			}
			for c, d := range rowOf(x, v, t) {
				if math.IsNaN(float64(d)) || math.IsInf(float64(d), 0) {
					return nil, false, fmt.Errorf("torch: the loss has a derivative that is not finite at token %d of experience %s", t, x.ID)
				}
				flat[(at+t)*k+c], needed = d, needed || d != 0
			}
		}
		at += int(b.lengths[n])
	}
	return flat, needed, nil
}

func gradOf(g *trinity.TokenGrads, name string) []float32 {
	return map[string][]float32{"logprob": g.Logprob, "entropy": g.Entropy, "value": g.Value, "divergence": g.Divergence}[name]
}
