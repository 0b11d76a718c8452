package cpu

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/model/safetensors"
	"github.com/trinity-go/trinity/trinitytest"
)

const finalNormName = "model.norm.weight"

// nll is the mean negative log-probability of trained tokens.
type nll struct{}

func (nll) Streams() trinity.Streams { return trinity.Streams{} }

func (nll) Loss(b *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	n := float64(trainedTokens(b.Whole))
	grads := make([]trinity.TokenGrads, len(now))
	loss := 0.0
	for i, x := range b.Experiences {
		grads[i].Logprob = make([]float32, len(x.Tokens))
		for t, m := range x.Mask {
			if m {
				grads[i].Logprob[t] = float32(-1 / n)
				loss -= float64(now[i].Logprob[t]) / n
			}
		}
	}
	return grads, trinity.Metrics{"loss": loss}, nil
}

// weighted is the mean over trained tokens of w·logprob + v·entropy, with w in Advantages and v in
// Returns.
type weighted struct{}

func (weighted) Streams() trinity.Streams { return trinity.Streams{Entropy: true} }

func (weighted) Loss(b *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	n := float64(trainedTokens(b.Whole))
	grads := make([]trinity.TokenGrads, len(now))
	loss := 0.0
	for i, x := range b.Experiences {
		grads[i] = trinity.TokenGrads{Logprob: make([]float32, len(x.Tokens)), Entropy: make([]float32, len(x.Tokens))}
		for t, m := range x.Mask {
			if m {
				w, v := float64(x.Advantages[t]), float64(x.Returns[t])
				grads[i].Logprob[t], grads[i].Entropy[t] = float32(w/n), float32(v/n)
				loss += (w*float64(now[i].Logprob[t]) + v*float64(now[i].Entropy[t])) / n
			}
		}
	}
	return grads, trinity.Metrics{"loss": loss}, nil
}

func trainedTokens(whole []*trinity.Experience) int {
	n := 0
	for _, x := range whole {
		n += x.TrainedTokens()
	}
	return n
}

func readJSON(t testing.TB, path string, v any) {
	t.Helper()
	trinitytest.ReadRecorded(t, path, v)
}

// sequences are the recorded batch: a group with a shared prompt, a sequence with holes in its
// mask, one with nothing to train.
func sequences(t *testing.T, temperatures bool) []*trinity.Experience {
	var rows []struct {
		Tokens      []int32
		Mask        []bool
		PromptLen   int       `json:"prompt_len"`
		Temperature float32   `json:"temperature"`
		WLogprob    []float32 `json:"w_logprob"`
		WEntropy    []float32 `json:"w_entropy"`
	}
	readJSON(t, "testdata/sequences.json.gz", &rows)
	var out []*trinity.Experience
	for i, r := range rows {
		x := &trinity.Experience{ID: trinity.ExperienceID{Run: i}, Tokens: r.Tokens, Mask: r.Mask, PromptLen: r.PromptLen, Advantages: r.WLogprob, Returns: r.WEntropy}
		if temperatures {
			x.Temperature = r.Temperature
		}
		out = append(out, x)
	}
	return out
}

// apart returns sequences that share no first tokens with those of another n.
func apart(xs []*trinity.Experience, n int32) []*trinity.Experience {
	var out []*trinity.Experience
	for _, x := range xs {
		own := *x
		own.Tokens = append([]int32{n}, x.Tokens[1:]...)
		out = append(out, &own)
	}
	return out
}

func whole(xs []*trinity.Experience) *trinity.Batch {
	return &trinity.Batch{Step: 1, Experiences: xs, Whole: xs}
}

func open(t testing.TB, opts Options) *Engine {
	t.Helper()
	if opts.MaxTokens == 0 {
		opts.MaxTokens = 64
	}
	e, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func tiny(name string) Options { return Options{ModelPath: filepath.Join("testdata", name)} }

// gradientOf returns the sum of a loss over the batches, and its gradient.
func (e *Engine) gradientOf(t testing.TB, loss trinity.Loss, batches ...*trinity.Batch) (sum float64, gradient []float32) {
	t.Helper()
	clear(e.gradient)
	for _, b := range batches {
		metrics, err := e.ForwardBackward(context.Background(), b, loss)
		if err != nil {
			t.Fatal(err)
		}
		sum += metrics["loss"]
	}
	return sum, append([]float32(nil), e.gradient...)
}

// difference is ‖a−b‖ / ‖b‖.
func difference(a, b []float32) float64 {
	d, n := 0.0, 0.0
	for i := range a {
		off, of := float64(a[i])-float64(b[i]), float64(b[i])
		d, n = d+off*off, n+of*of
	}
	if n == 0 {
		return math.Sqrt(d)
	}
	return math.Sqrt(d / n)
}

func tensorFile(t *testing.T, path string) func(name string) []float32 {
	t.Helper()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return func(name string) []float32 {
		tensor, ok := f.Tensor(name)
		if !ok {
			t.Fatalf("%s has no tensor %s", path, name)
		}
		v := make([]float32, tensor.Len())
		if err := tensor.Range(v, 0); err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// publish brings the current weights to the engine's sampler.
func publish(ctx context.Context, e engine.Trainer, version int64) error {
	p := e.(engine.Publisher)
	if err := p.Offer(ctx, version); err != nil {
		return err
	}
	_, err := p.Adopt(ctx)
	return err
}

// mix is one round of SplitMix64 (Steele, Lea & Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// tensorOf returns a tensor of a vector of weights, row-major.
func tensorOf(l *layout, weights []float32, name string) []float32 {
	v, err := l.tensor(weights, name)
	if err != nil {
		panic(err)
	}
	return v
}

// rowMajor returns a copy of the trained weights, placed as their gradient is.
func (e *Engine) rowMajor() []float32 {
	out := make([]float32, e.trainedLayout().size)
	for _, p := range e.trainedLayout().spans(taskSize) {
		at := p.slot.from + p.first
		p.read(out[at:at+p.n], e.trained)
	}
	return out
}

// setRowMajor replaces the trained weights.
func (e *Engine) setRowMajor(v []float32) {
	for _, p := range e.trainedLayout().spans(taskSize) {
		at := p.slot.from + p.first
		p.write(e.trained, v[at:at+p.n])
	}
}

// setWeight replaces a weight, given by its place in the gradient.
func (e *Engine) setWeight(at int, w float32) {
	all := e.rowMajor()
	all[at] = w
	e.setRowMajor(all)
}
