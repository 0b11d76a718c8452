package trinitytest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
)

// wholeBatch returns a group with a shared prompt, a sequence with a hole in its mask, and a
// sequence without trained tokens.
func wholeBatch() *trinity.Batch {
	row := func(mask string, tokens ...int32) *trinity.Experience {
		x := &trinity.Experience{Tokens: tokens, PromptLen: 3, Temperature: 1}
		for _, m := range mask {
			x.Mask = append(x.Mask, m == 'x')
		}
		return x
	}
	xs := []*trinity.Experience{row("...xxxx", 1, 2, 3, 4, 5, 6, 7), row("...xx", 1, 2, 3, 7, 6),
		row("...x..xx", 7, 5, 3, 1, 2, 2, 4, 6), row("....", 1, 2, 3, 4)}
	for i, x := range xs {
		x.ID.Run = i
	}
	return &trinity.Batch{Step: 1, Experiences: xs, Whole: xs}
}

// likelihood is scale × the mean negative log-probability of the trained tokens.
type likelihood struct{ scale float64 }

func (likelihood) Streams() trinity.Streams { return trinity.Streams{} }

func (l likelihood) Loss(b *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	n := 0
	for _, x := range b.Whole {
		n += x.TrainedTokens()
	}
	grads, loss, each := make([]trinity.TokenGrads, len(now)), 0.0, l.scale/float64(n)
	for i, x := range b.Experiences {
		grads[i].Logprob = make([]float32, len(x.Tokens))
		for t, trained := range x.Mask {
			if trained {
				grads[i].Logprob[t] = float32(-each)
				loss -= each * float64(now[i].Logprob[t])
			}
		}
	}
	return grads, trinity.Metrics{"loss": loss}, nil
}

// regression is scale × the mean of (value − 1)²/50 over the trained tokens. It is flat enough for
// one step with smooth to decrease it.
type regression struct{ scale float64 }

func (regression) Streams() trinity.Streams { return trinity.Streams{Value: true} }

func (r regression) Loss(b *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	n := 0
	for _, x := range b.Whole {
		n += x.TrainedTokens()
	}
	grads, loss, each := make([]trinity.TokenGrads, len(now)), 0.0, r.scale/float64(n)
	for i, x := range b.Experiences {
		grads[i].Value = make([]float32, len(x.Tokens))
		for t, trained := range x.Mask {
			if trained {
				off := float64(now[i].Value[t]) - 1
				grads[i].Value[t] = float32(each * off / 25)
				loss += each * off * off / 50
			}
		}
	}
	return grads, trinity.Metrics{"loss": loss}, nil
}

// smooth has a large Eps, which makes AdamW's step nearly proportional to the gradient. So rounding
// errors stay smaller than the step.
var smooth = trinity.OptimParams{LR: 0.1, Beta1: 0.9, Beta2: 0.999, Eps: 0.1}

// optimStep does one optimizer step in micro-batches of the given size. It returns the loss before
// the step and the norm of the gradient.
func optimStep(t *testing.T, e Trained, size int, scale float64) (loss, norm float64) {
	t.Helper()
	all := wholeBatch()
	for part := range slices.Chunk(all.Experiences, size) {
		metrics, err := e.Engine.ForwardBackward(t.Context(), &trinity.Batch{Step: 1, Experiences: part, Whole: all.Whole}, e.loss(scale))
		if err != nil {
			t.Fatal(err)
		}
		loss += metrics["loss"]
	}
	metrics, err := e.Engine.OptimStep(t.Context(), smooth)
	if err != nil {
		t.Fatal(err)
	}
	return loss, metrics["grad_norm"]
}

func publish(t *testing.T, e Trained, version int64) {
	t.Helper()
	if err := adopted(t.Context(), e.Engine, version); err != nil {
		t.Fatal(err)
	}
}

// adopted passes the current weights to the engine's sampler as a version. It does nothing for an
// engine that is not an engine.Publisher.
func adopted(ctx context.Context, e engine.Trainer, version int64) error {
	p, ok := e.(engine.Publisher)
	if !ok {
		return nil
	}
	if err := p.Offer(ctx, version); err != nil {
		return err
	}
	got, err := p.Adopt(ctx)
	if err == nil && got != version {
		err = fmt.Errorf("version %d was offered, and %d adopted", version, got)
	}
	return err
}

// streamed returns the log-probabilities or values of the whole batch, one after another.
func streamed(t *testing.T, e Trained) []float32 {
	t.Helper()
	stats, err := e.Engine.Forward(t.Context(), wholeBatch(), e.streams())
	if err != nil {
		t.Fatal(err)
	}
	var all []float32
	for _, s := range stats {
		all = append(append(all, s.Logprob...), s.Value...)
	}
	return all
}

// farthest returns the largest difference of two entries.
func farthest(a, b []float32) float64 {
	d := 0.0
	for i := range a {
		d = max(d, math.Abs(float64(a[i])-float64(b[i])))
	}
	return d
}

// everyVerb calls each method of an engine that can fail. state is a state to load.
func everyVerb(t *testing.T, trained Trained, state string) map[string]error {
	ctx, batch, e := t.Context(), wholeBatch(), trained.Engine
	errs := map[string]error{"SaveState": e.SaveState(ctx, t.TempDir()), "SaveModel": e.SaveModel(ctx, t.TempDir()),
		"LoadState": e.LoadState(ctx, state)}
	if p, ok := e.(engine.Publisher); ok {
		errs["Offer"], errs["SavePublished"] = p.Offer(ctx, 9), p.SavePublished(ctx, t.TempDir())
		_, errs["Adopt"] = p.Adopt(ctx)
	}
	_, errs["Forward"] = e.Forward(ctx, batch, trained.streams())
	_, errs["Reference"] = e.Reference(ctx, batch)
	_, errs["ForwardBackward"] = e.ForwardBackward(ctx, batch, trained.loss(1))
	_, errs["OptimStep"] = e.OptimStep(ctx, smooth)
	return errs
}

func engineBadBatch(t *testing.T, open func(*testing.T) Trained) {
	e := open(t)
	for name, x := range map[string]*trinity.Experience{
		"a token outside any vocabulary": {Tokens: []int32{1, math.MaxInt32}, Mask: []bool{false, true}},
		"a negative token":               {Tokens: []int32{-1, 1}, Mask: []bool{false, true}},
		"a mask of another length":       {Tokens: []int32{1, 2}, Mask: []bool{false}},
		"an image that is nowhere": {Tokens: []int32{1, 1, 2}, Mask: []bool{false, false, true},
			Images: []trinity.Image{{Digest: "sha256:" + strings.Repeat("0", 64), At: 1, Len: 1, Grid: [3]int{1, 1, 1}}}},
	} {
		xs := []*trinity.Experience{x}
		if _, err := e.Engine.ForwardBackward(t.Context(), &trinity.Batch{Step: 1, Experiences: xs, Whole: xs}, e.loss(1)); err == nil {
			t.Errorf("%s gave no error", name)
		}
	}
}
