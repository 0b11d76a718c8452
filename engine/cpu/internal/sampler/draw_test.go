package sampler

import (
	"cmp"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// expected computes a query's distribution by sorting, in float64: temperature, then top-k, then
// top-p of the remaining tokens, then min-p.
func expected(logits []float32, q query) []float64 {
	scores := make([]float64, len(logits))
	for i, v := range logits {
		scores[i] = float64(v)
		if slices.Contains(q.seen, int32(i)) {
			if v < 0 {
				scores[i] *= float64(q.penalty)
			} else {
				scores[i] /= float64(q.penalty)
			}
		}
		if slices.Contains(q.forbidden, int32(i)) {
			scores[i] = math.Inf(-1)
		}
	}
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if scores[a] > scores[b] {
			return -1
		}
		if scores[a] < scores[b] {
			return 1
		}
		return 0
	})
	p := make([]float64, len(scores))
	for i, v := range scores {
		p[i] = math.Exp((v - scores[order[0]]) / float64(q.temperature))
	}
	kept := order
	if q.topK > 0 {
		kept = order[:min(q.topK, len(order))]
	}
	total := 0.0
	for _, i := range kept {
		total += p[i]
	}
	sum := 0.0
	for n, i := range kept {
		if sum += p[i]; sum >= float64(q.topP)*total {
			kept = kept[:n+1]
			break
		}
	}
	out, mass := make([]float64, len(p)), 0.0
	for _, i := range kept {
		if p[i] >= float64(q.minP) {
			out[i] = p[i]
			mass += p[i]
		}
	}
	for i := range out {
		out[i] /= mass
	}
	return out
}

// The bias and the penalties change logits as they do elsewhere: testdata/record_penalties.py.
func TestPenaltiesAgainstRecorded(t *testing.T) {
	var cases []struct {
		Logits, Want                    []float32
		Prompt, Reply                   []int32
		Bias                            map[int32]float32
		Repetition, Presence, Frequency float32
	}
	data, err := os.ReadFile("testdata/penalties.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	s := &scheduler{model: &network{cfg: &model.Config{VocabSize: 40}}}
	for i, c := range cases {
		r := &request{prompt: c.Prompt, length: 16, params: trinity.SamplingParams{
			RepetitionPenalty: c.Repetition, PresencePenalty: c.Presence, FrequencyPenalty: c.Frequency,
		}}
		for token, bias := range c.Bias {
			r.bias = append(r.bias, trinity.TokenLogprob{Token: token, Logprob: bias})
		}
		q := s.newSequence(r, &prompt{})
		for _, token := range c.Reply {
			q.add(&draw{token: token}, 0)
		}
		q.prepare()
		if got := newDrawer(40).altered(c.Logits, &q.query); !slices.Equal(got, c.Want) {
			t.Errorf("case %d:\ngot  %v\nwant %v", i, got, c.Want)
		}
	}
	if len(cases) < 20 {
		t.Errorf("%d cases", len(cases))
	}
}

func randomLogits(n int, spread float64) []float32 {
	rng := rand.New(rand.NewPCG(11, uint64(n)))
	logits := make([]float32, n)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * spread)
	}
	return logits
}

func TestDrawDistribution(t *testing.T) {
	plain := func(change func(*query)) query {
		q := query{temperature: 1, topP: 1, penalty: 1}
		change(&q)
		return q
	}
	logits := randomLogits(37, 1.5)
	d := newDrawer(len(logits))
	for name, q := range map[string]query{
		"plain":            plain(func(q *query) {}),
		"hot":              plain(func(q *query) { q.temperature = 1.7 }),
		"cold":             plain(func(q *query) { q.temperature = 0.4 }),
		"top-k":            plain(func(q *query) { q.topK = 6 }),
		"top-k over V":     plain(func(q *query) { q.topK = 100 }),
		"top-p":            plain(func(q *query) { q.topP = 0.7 }),
		"top-p tiny":       plain(func(q *query) { q.topP = 1e-6 }),
		"min-p":            plain(func(q *query) { q.minP = 0.2 }),
		"all three":        plain(func(q *query) { q.temperature, q.topK, q.topP, q.minP = 1.3, 12, 0.9, 0.1 }),
		"penalty":          plain(func(q *query) { q.penalty, q.seen = 1.8, []int32{0, 3, 4, 9, 20} }),
		"forbidden":        plain(func(q *query) { q.forbidden = []int32{1, 2, 30} }),
		"penalty, top-p":   plain(func(q *query) { q.penalty, q.seen, q.topP = 0.6, []int32{7, 8}, 0.8 }),
		"forbidden, top-k": plain(func(q *query) { q.forbidden, q.topK = []int32{1, 2, 30}, 3 }),
	} {
		t.Run(name, func(t *testing.T) {
			const n = 8000
			want, got := expected(logits, q), make([]float64, len(logits))
			logprobs := make([]float32, len(logits))
			for i := range n {
				q.u = uniform(5, 0, i, ofCompletion)
				token, logprob := d.draw(logits, &q)
				if got[token]++; got[token] == 1 {
					checkLogprob(t, logits, q.temperature, token, logprob)
					logprobs[token] = logprob
				}
				if logprob != logprobs[token] {
					t.Fatalf("token %d has the log-probability %v, and %v before", token, logprob, logprobs[token])
				}
			}
			chi, degrees := 0.0, -1
			for i, p := range want {
				if p == 0 {
					if got[i] > 0 {
						t.Errorf("token %d was drawn %v times and is truncated", i, got[i])
					}
					continue
				}
				degrees++
				chi += (got[i] - n*p) * (got[i] - n*p) / (n * p)
			}
			// mean + 4.5 standard deviations of the chi-square distribution
			if limit := float64(degrees) + 4.5*math.Sqrt(2*float64(degrees)) + 1e-9; chi > limit {
				t.Errorf("chi-square %.1f with %d degrees of freedom, over %.1f", chi, degrees, limit)
			}
		})
	}
}

// constrained allows every third token.
type constrained struct{}

func (constrained) Mask(mask []uint64) {
	for i := range mask {
		mask[i] = 0x9249249249249249 >> (i * 64 % 3)
	}
}
func (constrained) Accept(int32) error         { return nil }
func (c constrained) Fork() trinity.Constraint { return c }

// TestDrawnLogprobIsTheTrainers: a draw returns the log-probability that training computes, to the
// last bit, also where it has the sum from drawing.
func TestDrawnLogprobIsTheTrainers(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	changes := []func(q *query){
		func(*query) {}, func(*query) {},
		func(q *query) { q.topK, q.topP, q.minP = 40, 0.9, 0.01 },
		func(q *query) { q.bias = []trinity.TokenLogprob{{Token: 0, Logprob: 2}} },
		func(q *query) { q.penalty, q.seen = 1.3, []int32{0} },
		func(q *query) { q.presence, q.frequency, q.counts = 0.5, 0.5, []tally{{token: 0, n: 2}} },
		func(q *query) { q.forbidden = []int32{0} },
		func(q *query) { q.constraint = constrained{} },
	}
	for _, vocab := range []int{2, 15, 16, 17, 511, 512, 513, 527, 1000, 1040, 5003, 49152} {
		d, scaled := newDrawer(vocab), make([]float32, vocab)
		for round := range 6 {
			logits := randomLogits(vocab, []float64{0.1, 3, 30}[round%3])
			for i := range logits {
				if i > 0 && round >= 3 && rng.IntN(3) == 0 {
					logits[i] = float32(math.Inf(-1))
				}
			}
			for _, temperature := range []float32{0, 1, 0.7, 1.3, 0.01, 40} {
				for n, change := range changes {
					q := query{temperature: temperature, topP: 1, penalty: 1, u: rng.Float64()}
					change(&q)
					token, logprob := d.draw(logits, &q)
					if token < 0 {
						continue // all that is left is forbidden
					}
					copy(scaled, logits)
					if temperature != 0 {
						kernel.Scale(scaled, logits, 1/temperature)
					}
					if want := kernel.Logprob(scaled, token); math.Float32bits(logprob) != math.Float32bits(want) {
						t.Errorf("%d tokens, temperature %v, change %d, round %d: %v, want %v", vocab, temperature, n, round, logprob, want)
					}
				}
			}
		}
	}
}

func checkLogprob(t *testing.T, logits []float32, temperature float32, token int32, logprob float32) {
	t.Helper()
	sum := 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v) / float64(temperature))
	}
	if want := float64(logits[token])/float64(temperature) - math.Log(sum); math.Abs(want-float64(logprob)) > 1e-5 {
		t.Fatalf("logprob of token %d is %v, want %v", token, logprob, want)
	}
}

// TestTruncationKeepsExactlyTheSortedSet compares the cut with sorting, over a vocabulary of
// several blocks.
func TestTruncationKeepsExactlyTheSortedSet(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 60 {
		n := 1 + rng.IntN(3000)
		logits := randomLogits(n, 0.2+4*rng.Float64())
		for i := range logits { // ties
			if rng.IntN(3) == 0 {
				logits[i] = float32(math.Round(float64(logits[i])))
			}
		}
		q := query{temperature: 0.5 + rng.Float32(), topP: 1, penalty: 1}
		switch round % 4 {
		case 0:
			q.topK = 1 + rng.IntN(n)
		case 1:
			q.topP = rng.Float32()
		case 2:
			q.minP = rng.Float32()
		default:
			q.topK, q.topP, q.minP = 1+rng.IntN(n), rng.Float32(), 0.1*rng.Float32()
		}
		d := newDrawer(n)
		d.draw(logits, &q)
		kept := make([]bool, n)
		for _, c := range d.cut.kept {
			kept[c.id] = true
		}
		differing := 0
		for i, p := range expected(logits, q) {
			if (p > 0) != kept[i] {
				differing++
			}
		}
		if differing > 1 { // at the edge of top-p, f32 and f64 sums may differ by one token
			t.Errorf("round %d (%d tokens, top-k %d, top-p %v, min-p %v): %d tokens kept or dropped wrongly", round, n, q.topK, q.topP, q.minP, differing)
		}
	}
}

func TestEveryTopK(t *testing.T) {
	for _, n := range []int{1, 2, 7, 40} {
		logits := randomLogits(n, 3)
		d := newDrawer(n)
		for k := 1; k <= n+1; k++ {
			d.draw(logits, &query{temperature: 1, topP: 1, topK: k, penalty: 1})
			if got := len(d.cut.kept); got != min(k, n) {
				t.Errorf("top-k %d of %d tokens kept %d", k, n, got)
			}
		}
	}
}

func TestGreedyTakesTheFirstOfEquals(t *testing.T) {
	d := newDrawer(5)
	token, logprob := d.draw([]float32{1, 3, 3, 0, 3}, &query{penalty: 1, topP: 1})
	if token != 1 {
		t.Errorf("token %d, want 1", token)
	}
	checkLogprob(t, []float32{1, 3, 3, 0, 3}, 1, token, logprob)
}

func TestDrawRefusesWhatIsNoNumber(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		logits    []float32
		forbidden []int32
	}{{[]float32{0, nan, 1}, nil}, {[]float32{0, inf, 1}, nil}, {[]float32{-inf, -inf}, nil}, {[]float32{0, 1}, []int32{0, 1}}} {
		for _, temperature := range []float32{0, 1} {
			d := newDrawer(len(c.logits))
			if token, _ := d.draw(c.logits, &query{temperature: temperature, topP: 0.5, penalty: 1, forbidden: c.forbidden}); token != -1 {
				t.Errorf("logits %v, forbidden %v: drew token %d", c.logits, c.forbidden, token)
			}
		}
	}
}

func TestDrawDoesNotAllocate(t *testing.T) {
	logits := randomLogits(5120, 2)
	d := newDrawer(len(logits))
	q := query{temperature: 0.8, topK: 50, topP: 0.9, minP: 0.01, penalty: 1.2, seen: []int32{1, 2, 3}, forbidden: []int32{4}, u: 0.3}
	d.draw(logits, &q)
	if n := testing.AllocsPerRun(50, func() { d.draw(logits, &q) }); n > 0 {
		t.Errorf("%v allocations per draw", n)
	}
}

// TestTopTokens compares with a sort of all tokens.
func TestTopTokens(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	logits := make([]float32, 300)
	for i := range logits {
		logits[i] = float32(rng.IntN(60)) / 8 // many are equal
	}
	logits[7] = float32(math.Inf(-1))
	d := newDrawer(len(logits))
	order := make([]int32, len(logits))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(logits[b], logits[a]) })
	for _, temperature := range []float32{0, 1, 0.3} {
		for _, n := range []int{1, 2, 20, 299, 300} {
			top := d.top(logits, n, temperature)
			if len(top) != min(n, 299) {
				t.Fatalf("%d tokens, want %d", len(top), n)
			}
			for i, x := range top {
				if want := d.logprob(logits, order[i], temperature); x.Token != order[i] || x.Logprob != want {
					t.Errorf("temperature %v: token %d of %d is %v, want %d with %v", temperature, i, n, x, order[i], want)
				}
			}
		}
	}
}
