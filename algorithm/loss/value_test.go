package loss

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

func newValue(t *testing.T, clip float64) trinity.Loss {
	t.Helper()
	l, err := NewValue(clip)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// valued is a sequence with a prompt of one token, and what an engine now says of it.
func valued(now, before, returns []float32) (*trinity.Experience, trinity.TokenStats) {
	lead := func(v []float32) []float32 { return append([]float32{0}, v...) }
	e := &trinity.Experience{Tokens: make([]int32, len(now)+1), Mask: make([]bool, len(now)+1), PromptLen: 1,
		StepStreams: trinity.StepStreams{Values: lead(before)}, Returns: lead(returns)}
	for t := range now {
		e.Mask[t+1] = true
	}
	return e, trinity.TokenStats{Value: lead(now)}
}

func TestValueLossEqualsValuesByHand(t *testing.T) {
	for _, c := range []struct {
		name                 string
		now, before, returns float32
		loss, grad, clipfrac float64
	}{
		{"within the range", 1.25, 1, 2, 0.28125, -0.75, 0},
		{"right already", 2, 2, 2, 0, 0, 0},
		{"moved too far towards the return", 1.75, 1, 2, 0.125, 0, 1}, // as if it were 1.5
		{"moved too far away from it", 0.25, 1, 2, 1.53125, -1.75, 0}, // 1.75²/2 is more than 1.5²/2
		{"too far below, towards it", 0.25, 1, 0, 0.125, 0, 1},
		{"past the return", 4, 1, 1.25, 3.78125, 2.75, 0},
	} {
		e, now := valued([]float32{c.now}, []float32{c.before}, []float32{c.returns})
		b := []*trinity.Experience{e}
		grads, m, err := newValue(t, 0.5).Loss(&trinity.Batch{Experiences: b, Whole: b}, []trinity.TokenStats{now})
		if err != nil {
			t.Fatal(err)
		}
		if m["vf_loss"] != c.loss || m["vf_clipfrac"] != c.clipfrac || m["vpred_mean"] != float64(c.now) {
			t.Errorf("%s: %v, want loss %v, clipped %v", c.name, m, c.loss, c.clipfrac)
		}
		if g := grads[0].Value; len(g) != 2 || g[0] != 0 || float64(g[1]) != c.grad || grads[0].Logprob != nil {
			t.Errorf("%s: gradient %v, want %v", c.name, g, c.grad)
		}
	}
}

// recordedValue holds the records of testdata/record_value.py.
type recordedValue struct {
	Batch []struct {
		Mask                   []bool
		Before, Value, Returns []float32
	}
	Cases []struct {
		Clip    *float64 // nil does not clip
		Metrics map[string]float64
		Grad    [][]float64
	}
}

func loadValue(t *testing.T) (*recordedValue, []*trinity.Experience, []trinity.TokenStats) {
	t.Helper()
	data, err := os.ReadFile("testdata/value.json")
	if err != nil {
		t.Fatal(err)
	}
	var r recordedValue
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	var batch []*trinity.Experience
	var now []trinity.TokenStats
	for _, s := range r.Batch {
		batch = append(batch, &trinity.Experience{Tokens: make([]int32, len(s.Mask)), Mask: s.Mask, PromptLen: 2,
			StepStreams: trinity.StepStreams{Values: s.Before}, Returns: s.Returns})
		now = append(now, trinity.TokenStats{Value: s.Value})
	}
	return &r, batch, now
}

func TestValueLossEqualsPyTorch(t *testing.T) {
	r, batch, now := loadValue(t)
	for _, c := range r.Cases {
		clip := math.Inf(1)
		if c.Clip != nil {
			clip = *c.Clip
		}
		grads, m, err := newValue(t, clip).Loss(&trinity.Batch{Experiences: batch, Whole: batch}, now)
		if err != nil {
			t.Fatal(err)
		}
		compareMetrics(t, m, c.Metrics, 1e-12)
		for i := range batch {
			compareGrads(t, "value", i, grads[i].Value, c.Grad[i])
		}
	}
}

// Micro-batches add up to the whole step, and the gradient is the slope.
func TestValueLossOfMicroBatchesAddsUp(t *testing.T) {
	_, batch, now := loadValue(t)
	now[0].Value[3], now[4].Value[5] = batch[0].Values[3]+0.25, batch[4].Values[5]-0.25 // slopes by differences want numbers of one size
	l := newValue(t, 0.5)
	whole, metrics, err := l.Loss(&trinity.Batch{Experiences: batch, Whole: batch}, now)
	if err != nil {
		t.Fatal(err)
	}
	sum := trinity.Metrics{}
	for i := range batch {
		grads, m, err := l.Loss(&trinity.Batch{Experiences: batch[i : i+1], Whole: batch}, now[i:i+1])
		if err != nil {
			t.Fatal(err)
		}
		sum.Add(m)
		for k, g := range grads[0].Value {
			if g != whole[i].Value[k] {
				t.Errorf("sequence %d alone has the gradient %v, want %v", i, grads[0].Value, whole[i].Value)
				break
			}
		}
	}
	compareMetrics(t, sum, metrics, 1e-12)
	const h = 1.0 / 1024
	for i, e := range batch {
		for k, trained := range e.Mask {
			at := now[i].Value[k]
			loss := func(shift float32) float64 {
				now[i].Value[k] = at + shift
				defer func() { now[i].Value[k] = at }()
				_, m, err := l.Loss(&trinity.Batch{Experiences: batch, Whole: batch}, now)
				if err != nil {
					t.Fatal(err)
				}
				return m["vf_loss"]
			}
			apart := float64(at+h) - float64(at-h) // 2h, but for rounding
			slope, g := (loss(h)-loss(-h))/apart, float64(whole[i].Value[k])
			if math.Abs(slope-g) > 1e-5*(1+math.Abs(g)) || !trained && g != 0 {
				t.Errorf("sequence %d, token %d: slope %v, gradient %v", i, k, slope, g)
			}
		}
	}
}

func TestValueLossReportsBadInput(t *testing.T) {
	for _, clip := range []float64{0, -1, math.NaN()} {
		if _, err := NewValue(clip); err == nil || !strings.Contains(err.Error(), "cliprange_value") {
			t.Errorf("cliprange_value %v: %v", clip, err)
		}
	}
	e, now := valued([]float32{1}, []float32{1}, []float32{1})
	loss := func(change func(e *trinity.Experience, now *trinity.TokenStats)) error {
		e, now := *e, now
		change(&e, &now)
		b := []*trinity.Experience{&e}
		_, _, err := newValue(t, 0.5).Loss(&trinity.Batch{Experiences: b, Whole: b}, []trinity.TokenStats{now})
		return err
	}
	for want, change := range map[string]func(*trinity.Experience, *trinity.TokenStats){
		"has no values":                   func(e *trinity.Experience, _ *trinity.TokenStats) { e.Values = nil },
		"has no returns":                  func(e *trinity.Experience, _ *trinity.TokenStats) { e.Returns = nil },
		"returned 0 values of value":      func(_ *trinity.Experience, now *trinity.TokenStats) { now.Value = nil },
		"current value of token 1 is NaN": func(_ *trinity.Experience, now *trinity.TokenStats) { now.Value = []float32{0, float32(math.NaN())} },
	} {
		if err := loss(change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	b := []*trinity.Experience{e}
	if _, _, err := newValue(t, 0.5).Loss(&trinity.Batch{Experiences: b, Whole: b}, nil); err == nil {
		t.Error("values of no sequence for a micro-batch of one were accepted")
	}
}
