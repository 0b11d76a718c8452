package tape

import (
	"math"
	"strings"
	"testing"
)

// ops holds every operation with hand values: y for x = in (and the second operand), and dy/dx.
var ops = []struct {
	name      string
	apply     func(x, o Stream) Stream
	x, o      float64
	y         float64
	dx, do    float64
	smooth    bool // finite differences agree at x
	tolerance float64
}{
	{"add", Stream.Add, 2, 3, 5, 1, 1, true, 0},
	{"sub", Stream.Sub, 2, 3, -1, 1, -1, true, 0},
	{"mul", Stream.Mul, 2, 3, 6, 3, 2, true, 0},
	{"div", Stream.Div, 2, 4, 0.5, 0.25, -0.125, true, 0},
	{"min first", Stream.Min, 2, 3, 2, 1, 0, true, 0},
	{"min second", Stream.Min, 4, 3, 3, 0, 1, true, 0},
	{"min tie", Stream.Min, 3, 3, 3, 0.5, 0.5, false, 0},
	{"max first", Stream.Max, 4, 3, 4, 1, 0, true, 0},
	{"max second", Stream.Max, 2, 3, 3, 0, 1, true, 0},
	{"max tie", Stream.Max, 3, 3, 3, 0.5, 0.5, false, 0},
	{"neg", func(x, _ Stream) Stream { return x.Neg() }, 2, 0, -2, -1, 0, true, 0},
	{"scale", func(x, _ Stream) Stream { return x.Scale(-2.5) }, 2, 0, -5, -2.5, 0, true, 0},
	{"plus", func(x, _ Stream) Stream { return x.Plus(-2.5) }, 2, 0, -0.5, 1, 0, true, 0},
	{"exp", func(x, _ Stream) Stream { return x.Exp() }, math.Ln2, 0, 2, 2, 0, true, 1e-15},
	{"log", func(x, _ Stream) Stream { return x.Log() }, math.E, 0, 1, 1 / math.E, 0, true, 1e-15},
	{"square", func(x, _ Stream) Stream { return x.Square() }, -3, 0, 9, -6, 0, true, 0},
	{"abs of positive", func(x, _ Stream) Stream { return x.Abs() }, 3, 0, 3, 1, 0, true, 0},
	{"abs of negative", func(x, _ Stream) Stream { return x.Abs() }, -3, 0, 3, -1, 0, true, 0},
	{"abs at 0", func(x, _ Stream) Stream { return x.Abs() }, 0, 0, 0, 0, 0, false, 0},
	{"clamp inside", func(x, _ Stream) Stream { return x.Clamp(-1, 2) }, 0.5, 0, 0.5, 1, 0, true, 0},
	{"clamp below", func(x, _ Stream) Stream { return x.Clamp(-1, 2) }, -1.5, 0, -1, 0, 0, true, 0},
	{"clamp above", func(x, _ Stream) Stream { return x.Clamp(-1, 2) }, 2.5, 0, 2, 0, 0, true, 0},
	{"clamp on the lower bound", func(x, _ Stream) Stream { return x.Clamp(-1, 2) }, -1, 0, -1, 1, 0, false, 0},
	{"clamp on the upper bound", func(x, _ Stream) Stream { return x.Clamp(-1, 2) }, 2, 0, 2, 1, 0, false, 0},
	{"sigmoid", func(x, _ Stream) Stream { return x.Sigmoid() }, math.Log(3), 0, 0.75, 0.1875, 0, true, 1e-15},
	{"sigmoid of negative", func(x, _ Stream) Stream { return x.Sigmoid() }, -math.Log(3), 0, 0.25, 0.1875, 0, true, 1e-15},
	{"logsigmoid", func(x, _ Stream) Stream { return x.LogSigmoid() }, math.Log(3), 0, math.Log(0.75), 0.25, 0, true, 1e-15},
	{"logsigmoid of negative", func(x, _ Stream) Stream { return x.LogSigmoid() }, -math.Log(3), 0, math.Log(0.25), 0.75, 0, true, 1e-15},
	{"logsigmoid far down", func(x, _ Stream) Stream { return x.LogSigmoid() }, -800, 0, -800, 1, 0, false, 0},
	{"logsigmoid far up", func(x, _ Stream) Stream { return x.LogSigmoid() }, 800, 0, 0, 0, 0, false, 0},
	{"where true", func(x, o Stream) Stream { return x.Where([]bool{true}, o) }, 2, 3, 2, 1, 0, true, 0},
	{"where false", func(x, o Stream) Stream { return x.Where([]bool{false}, o) }, 2, 3, 3, 0, 1, true, 0},
	{"detach", func(x, _ Stream) Stream { return x.Detach().Mul(x) }, 3, 0, 9, 3, 0, false, 0},
}

func TestOpsEqualValuesByHand(t *testing.T) {
	var tp Tape
	for _, c := range ops {
		tp.Reset([]int{1})
		x, o := tp.Variable([]float64{c.x}), tp.Variable([]float64{c.o})
		y := c.apply(x, o)
		tp.Backward(y.Sum(nil))
		for _, v := range []struct {
			name      string
			got, want float64
		}{{"y", y.Value()[0], c.y}, {"dx", x.Grad()[0], c.dx}, {"do", o.Grad()[0], c.do}} {
			if math.Abs(v.got-v.want) > c.tolerance*(1+math.Abs(v.want)) {
				t.Errorf("%s: %s = %v, want %v", c.name, v.name, v.got, v.want)
			}
		}
	}
}

func TestEachOpEqualsFiniteDifferences(t *testing.T) {
	var tp Tape
	for _, c := range ops {
		if !c.smooth {
			continue
		}
		f := func(x, o float64) float64 {
			tp.Reset([]int{1})
			return c.apply(tp.Variable([]float64{x}), tp.Variable([]float64{o})).Value()[0]
		}
		const h = 1e-6
		dx := (f(c.x+h, c.o) - f(c.x-h, c.o)) / (2 * h)
		do := (f(c.x, c.o+h) - f(c.x, c.o-h)) / (2 * h)
		if math.Abs(dx-c.dx) > 1e-8 || math.Abs(do-c.do) > 1e-8 {
			t.Errorf("%s: differences %v, %v; want %v, %v", c.name, dx, do, c.dx, c.do)
		}
	}
}

func TestReductionsRespectMasks(t *testing.T) {
	lengths := []int{2, 0, 3}
	values := []float64{1, 2, 3, 4, 5}
	mask := []bool{true, false, true, true, false}
	for _, c := range []struct {
		name  string
		apply func(x Stream) Stream
		y     []float64
		grad  []float64 // of Σ (k+1)·y[k]
	}{
		{"sequence sum", func(x Stream) Stream { return x.SeqSum(nil) }, []float64{3, 0, 12}, []float64{1, 1, 3, 3, 3}},
		{"sequence sum, masked", func(x Stream) Stream { return x.SeqSum(mask) }, []float64{1, 0, 7}, []float64{1, 0, 3, 3, 0}},
		{"sequence mean", func(x Stream) Stream { return x.SeqMean(nil) }, []float64{1.5, 0, 4}, []float64{0.5, 0.5, 1, 1, 1}},
		{"sequence mean, masked", func(x Stream) Stream { return x.SeqMean(mask) }, []float64{1, 0, 3.5}, []float64{1, 0, 1.5, 1.5, 0}},
		{"spread", func(x Stream) Stream { return x.SeqSum(nil).Spread() }, []float64{3, 3, 12, 12, 12}, []float64{3, 3, 12, 12, 12}},
		{"gather", func(x Stream) Stream { return x.SeqSum(nil).Gather([]int{2, 0}) }, []float64{12, 3}, []float64{2, 2, 1, 1, 1}},
		{"gather twice", func(x Stream) Stream { return x.SeqSum(nil).Gather([]int{0, 0}) }, []float64{3, 3}, []float64{3, 3, 0, 0, 0}},
		{"dot", func(x Stream) Stream { return x.Dot([]float64{1, 0, -1, 0, 2}) }, []float64{8}, []float64{1, 0, -1, 0, 2}},
		{"sum", func(x Stream) Stream { return x.Sum(nil) }, []float64{15}, []float64{1, 1, 1, 1, 1}},
		{"sum, masked", func(x Stream) Stream { return x.Sum(mask) }, []float64{8}, []float64{1, 0, 1, 1, 0}},
	} {
		var tp Tape
		tp.Reset(lengths)
		x := tp.Variable(values)
		y := c.apply(x)
		weights := make([]float64, len(y.Value()))
		for k := range weights {
			weights[k] = float64(k + 1)
		}
		tp.Backward(y.Dot(weights))
		if !near(y.Value(), c.y, 1e-15) || !near(x.Grad(), c.grad, 1e-15) {
			t.Errorf("%s: y %v, gradient %v; want %v, %v", c.name, y.Value(), x.Grad(), c.y, c.grad)
		}
	}
}

// expression uses a sequence ratio, reuse of a stream, a mask and a clip at once.
func expression(tp *Tape, x Stream) Stream {
	ratio := x.SeqMean(nil).Spread().Sub(tp.Fill(0.1)).Exp()
	clipped := ratio.Clamp(0.5, 2)
	kept := x.Mul(ratio).Max(clipped.Scale(-0.3)).Where([]bool{true, true, false, true, true}, x.Square())
	pair := kept.SeqSum(nil).Gather([]int{1, 0})
	return kept.Dot([]float64{0.5, -1, 2, 0, 1}).Add(pair.LogSigmoid().Dot([]float64{1, 3}))
}

func TestExpressionEqualsFiniteDifferences(t *testing.T) {
	at := []float64{0.3, -0.2, 0.7, 0.11, -0.5}
	var tp Tape
	value := func(x []float64) float64 {
		tp.Reset([]int{2, 3})
		return expression(&tp, tp.Variable(x)).Scalar()
	}
	want := make([]float64, len(at))
	const h = 1e-6
	for i := range at {
		up, down := append([]float64(nil), at...), append([]float64(nil), at...)
		up[i], down[i] = up[i]+h, down[i]-h
		want[i] = (value(up) - value(down)) / (2 * h)
	}
	tp.Reset([]int{2, 3})
	x := tp.Variable(at)
	tp.Backward(expression(&tp, x))
	if !near(x.Grad(), want, 1e-8) {
		t.Errorf("gradient %v, differences %v", x.Grad(), want)
	}
}

func TestResetReusesMemory(t *testing.T) {
	var tp Tape
	lengths, at, weights := []int{2, 3}, []float64{0.3, -0.2, 0.7, 0.11, -0.5}, []float64{1, 1, 1, 1, 1}
	run := func() []float64 {
		tp.Reset(lengths)
		x := tp.Variable(at)
		tp.Backward(x.Exp().Mul(x).SeqMean(nil).Spread().Dot(weights))
		return x.Grad()
	}
	first := append([]float64(nil), run()...)
	if allocations := testing.AllocsPerRun(20, func() { run() }); allocations > 0 {
		t.Errorf("%v allocations in a repeated expression, want none", allocations)
	}
	if !near(run(), first, 0) {
		t.Errorf("the second run gave %v, the first %v", run(), first)
	}
}

func TestManyTokensCrossBlocks(t *testing.T) {
	n := 3*blockSize + 7
	values := make([]float64, n)
	for i := range values {
		values[i] = float64(i % 11)
	}
	var tp Tape
	for _, lengths := range [][]int{{n}, {10}, {n - 10, 10}} {
		tp.Reset(lengths)
		x := tp.Variable(values[:tp.Tokens()])
		tp.Backward(x.Square().Sum(nil))
		for i, g := range x.Grad() {
			if g != 2*values[i] {
				t.Fatalf("lengths %v: gradient[%d] = %v, want %v", lengths, i, g, 2*values[i])
			}
		}
	}
}

func TestMaskedInfinitySendsNoNaN(t *testing.T) {
	var tp Tape
	tp.Reset([]int{2})
	x := tp.Variable([]float64{0, 1})
	where := x.Log().Where([]bool{false, true}, tp.Fill(2)).Sum(nil)
	weight := x.Log().Dot([]float64{0, 3})
	tp.Backward(where.Add(weight))
	if where.Scalar() != 2 || weight.Scalar() != 0 || !near(x.Grad(), []float64{0, 4}, 0) {
		t.Errorf("values %v, %v, gradient %v; want 2, 0, [0 4]", where.Scalar(), weight.Scalar(), x.Grad())
	}
}

func TestUnusedVariableHasZeroGradient(t *testing.T) {
	var tp Tape
	tp.Reset([]int{1})
	x := tp.Variable([]float64{3})
	tp.Backward(tp.Value(0))
	if !near(x.Grad(), []float64{0}, 0) || tp.Fill(1).Grad() != nil {
		t.Errorf("gradient %v", x.Grad())
	}
}

func TestSequencesAreVariables(t *testing.T) {
	var tp Tape
	tp.Reset([]int{2, 0, 1})
	x, c := tp.SequenceVariable([]float64{3, 4, 5}), tp.SequenceConstant([]float64{1, 10, 100})
	loss := x.Mul(c).Gather([]int{2, 0}).Sub(x.Gather([]int{0, 0})).Dot([]float64{1, 2})
	tp.Backward(loss)
	if loss.Scalar() != 497 || !near(x.Grad(), []float64{-1, 0, 100}, 0) || c.Grad() != nil {
		t.Errorf("loss %v, gradients %v and %v", loss.Scalar(), x.Grad(), c.Grad())
	}
}

func TestMisusePanics(t *testing.T) {
	var tp, other Tape
	tp.Reset([]int{1, 1})
	other.Reset([]int{1, 1})
	x := tp.Variable([]float64{1, 2})
	for want, f := range map[string]func(){
		"per-token stream [2] meets a per-sequence stream [2]": func() { x.Add(x.SeqSum(nil)) },
		"two tapes":               func() { x.Add(other.Fill(0)) },
		"1 values for 2 tokens":   func() { tp.Constant([]float64{1}) },
		"3 values for 2 sequence": func() { tp.SequenceVariable([]float64{1, 2, 3}) },
		"3 weights over":          func() { x.Dot([]float64{1, 2, 3}) },
		"mask [1] over":           func() { x.SeqSum([]bool{true}) },
		"mask [3] over":           func() { x.Where([]bool{true, true, true}, x) },
		"needs a single number":   func() { tp.Backward(x) },
		"Spread of a per-token":   func() { x.Spread() },
		"Gather of a per-token":   func() { x.Gather([]int{0}) },
		"sum per sequence needs":  func() { x.SeqSum(nil).SeqSum(nil) },
		"Scalar of a per-token s": func() { x.Scalar() },
	} {
		func() {
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, want) {
					t.Errorf("panic %q, want %q", got, want)
				}
			}()
			f()
		}()
	}
}

func near(got, want []float64, tolerance float64) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= tolerance*(1+math.Abs(want[i]))) {
			return false
		}
	}
	return true
}
