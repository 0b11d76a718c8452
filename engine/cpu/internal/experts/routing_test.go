package experts

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

var shapes = []Shape{{8, 2, true}, {8, 2, false}, {5, 3, true}, {33, 8, true}, {4, 4, false}, {1, 1, true}}

func random(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

// arena is where the routings of all tests, which are small, have their memory.
var arena = kernel.NewArena()

// routed is the routing of the given logits [tokens, experts].
func routed(shape Shape, logits []float32) *Routing {
	tokens := len(logits) / shape.Experts
	r := New(&kernel.Taker{Arena: arena}, shape, tokens)
	copy(r.Logits(tokens).Data, logits)
	r.Route(kernel.NewPool(2), nil)
	return r
}

// expected are the weights of all experts for one token, by float64 and a stable sort.
func expected(shape Shape, logits []float32) []float64 {
	sum, order := 0.0, make([]int, len(logits))
	p := make([]float64, len(logits))
	for i, z := range logits {
		p[i], order[i] = math.Exp(float64(z)), i
		sum += p[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(logits[b], logits[a]) })
	if shape.Normalise {
		sum = 0
		for _, i := range order[:shape.PerToken] {
			sum += p[i]
		}
	}
	weights := make([]float64, len(logits))
	for _, i := range order[:shape.PerToken] {
		weights[i] = p[i] / sum
	}
	return weights
}

func TestTheBestExpertsOfEveryToken(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, shape := range shapes {
		const tokens = 50
		logits := random(rng, tokens*shape.Experts)
		for i := range logits[:20*shape.Experts] { // with ties
			logits[i] = float32(math.Round(float64(logits[i])))
		}
		r := routed(shape, logits)
		for token := range tokens {
			want := expected(shape, logits[token*shape.Experts:][:shape.Experts])
			got := make([]float64, shape.Experts)
			for i, expert := range r.Chosen(token) {
				got[expert] += float64(r.weightsOf(token)[i])
			}
			for i := range want {
				if math.Abs(got[i]-want[i]) > 1e-6 || (got[i] != 0) != (want[i] != 0) {
					t.Fatalf("%+v, token %d: weights %v, want %v", shape, token, got, want)
				}
			}
			if !slices.IsSorted(r.Chosen(token)) {
				t.Fatalf("%+v, token %d: experts %v are not in order", shape, token, r.Chosen(token))
			}
		}
	}
}

func TestATokenAloneGetsTheSameBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, shape := range shapes {
		const tokens, width = 40, 19
		logits := random(rng, tokens*shape.Experts)
		scale := func(expert int) float32 { return float32(expert+1) / 3 }
		results := func(logits, in []float32) []float32 { // each expert multiplies by a number of its own
			r, n := routed(shape, logits), len(logits)/shape.Experts
			x, out := kernel.NewMatrix(in, n, width), kernel.NewMatrix(make([]float32, n*width), n, width)
			pairs := kernel.NewMatrix(make([]float32, r.Pairs()*width), r.Pairs(), width)
			r.Gather(nil, pairs, x)
			r.Each(nil, func(expert, from, to int) {
				for i := from; i < to; i++ {
					kernel.Scale(pairs.Row(i), pairs.Row(i), scale(expert))
				}
			})
			r.Combine(nil, out, pairs)
			return out.Data
		}
		in := random(rng, tokens*width)
		all := results(logits, in)
		for token := range tokens {
			alone := results(logits[token*shape.Experts:][:shape.Experts], in[token*width:][:width])
			if !slices.Equal(alone, all[token*width:][:width]) {
				t.Fatalf("%+v, token %d: alone %v, in company %v", shape, token, alone, all[token*width:][:width])
			}
			factor := 0.0
			for expert, w := range expected(shape, logits[token*shape.Experts:][:shape.Experts]) {
				factor += w * float64(scale(expert))
			}
			if want := factor * float64(in[token*width]); math.Abs(float64(alone[0])-want) > 1e-5 {
				t.Fatalf("%+v, token %d: %v, want %v", shape, token, alone[0], want)
			}
		}
	}
}

func TestLogitsThatAreNoNumbersStillHaveExperts(t *testing.T) {
	nan := float32(math.NaN())
	r := routed(Shape{4, 2, true}, []float32{nan, nan, nan, nan, 1, nan, 2, 3})
	for token := range 2 {
		if c := r.Chosen(token); c[0] == c[1] || c[0] < 0 || c[1] > 3 {
			t.Errorf("experts %v", c)
		}
	}
}

func TestGradientByTheLogits(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, shape := range shapes {
		const tokens, width = 6, 5
		logits, in, out := random(rng, tokens*shape.Experts), random(rng, tokens*shape.PerToken*width), random(rng, tokens*width)
		extra := random(rng, tokens*shape.Experts)
		loss := func(logits []float32, hidden []float32) float64 { // Σ out·Σ weights·hidden + Σ extra·probabilities
			r, sum := routed(shape, logits), 0.0
			for token := range tokens {
				for i, pair := range r.placesOf(token) {
					for j := range width {
						sum += float64(out[token*width+j]) * float64(r.weightsOf(token)[i]) * float64(hidden[int(pair)*width+j])
					}
				}
				for i, p := range r.Probabilities(token) {
					sum += float64(extra[token*shape.Experts+i]) * float64(p)
				}
			}
			return sum
		}
		r := routed(shape, logits)
		hidden := kernel.NewMatrix(slices.Clone(in), r.Pairs(), width)
		dHidden := kernel.NewMatrix(make([]float32, r.Pairs()*width), r.Pairs(), width)
		r.Gather(nil, dHidden, kernel.NewMatrix(out, tokens, width))
		r.WeighBackward(nil, dHidden, hidden)
		d := kernel.NewMatrix(make([]float32, tokens*shape.Experts), tokens, shape.Experts)
		r.Backward(nil, d, func(token int) []float32 { return extra[token*shape.Experts:][:shape.Experts] })
		const step = 1e-2
		for i := range logits {
			moved := slices.Clone(logits)
			moved[i] += step
			up, same := loss(moved, in), slices.Equal(routed(shape, moved).chosen, r.chosen)
			moved[i] -= 2 * step
			if !same || !slices.Equal(routed(shape, moved).chosen, r.chosen) {
				continue // the choice of experts is no differentiable one
			}
			if want := (up - loss(moved, in)) / (2 * step); math.Abs(want-float64(d.Data[i])) > 2e-3 {
				t.Errorf("%+v: gradient by logit %d is %v, want %v", shape, i, d.Data[i], want)
			}
		}
		for i := range in {
			moved := slices.Clone(in)
			moved[i] += 1
			if want := loss(logits, moved) - loss(logits, in); math.Abs(want-float64(dHidden.Data[i])) > 1e-5 {
				t.Errorf("%+v: gradient by number %d of the pairs is %v, want %v", shape, i, dHidden.Data[i], want)
			}
		}
	}
}

func TestKeepIsTheRoutingOfWhatStays(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, shape := range shapes {
		const tokens = 30
		logits := random(rng, tokens*shape.Experts)
		rows, few := []int{}, []float32{}
		for token := range tokens {
			if rng.IntN(3) > 0 {
				rows, few = append(rows, token), append(few, logits[token*shape.Experts:][:shape.Experts]...)
			}
		}
		r, want := routed(shape, logits), routed(shape, few)
		before := slices.Clone(r.token)
		pairs := r.Keep(rows)
		if !slices.IsSorted(pairs) || len(pairs) != want.Pairs() || r.Pairs() != want.Pairs() {
			t.Fatalf("%+v: pairs %v stay of %d tokens", shape, pairs, len(rows))
		}
		for i, pair := range pairs {
			if rows[want.token[i]] != int(before[pair]) {
				t.Errorf("%+v: pair %d was that of token %d, want %d", shape, i, before[pair], rows[want.token[i]])
			}
		}
		n := want.Pairs()
		if !slices.Equal(r.chosen[:n], want.chosen) || !slices.Equal(r.weights[:n], want.weights) || !slices.Equal(r.place[:n], want.place) ||
			!slices.Equal(r.token[:n], want.token) || !slices.Equal(r.from, want.from) || !slices.Equal(r.probabilities[:len(few)], want.probabilities) {
			t.Errorf("%+v: another routing than that of the rest alone", shape)
		}
	}
}
