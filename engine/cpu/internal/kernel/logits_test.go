package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// logitReference is lse, entropy and logprob in float64.
func logitReference(row []float64, target int) (lse, entropy, logprob float64) {
	for _, v := range row {
		lse += math.Exp(v)
	}
	lse = math.Log(lse)
	for _, v := range row {
		if p := math.Exp(v - lse); p > 0 {
			entropy -= p * (v - lse)
		}
	}
	if target >= 0 {
		logprob = row[target] - lse
	}
	return lse, entropy, logprob
}

func TestLogits(t *testing.T) {
	pool := NewPool(2)
	defer pool.Close()
	firsts := map[int][]float32{}
	eachSet(t, func(t *testing.T) {
		for _, vocab := range []int{1, 5, 16, 100, 1000} {
			r := rand.New(rand.NewPCG(31, uint64(vocab)))
			logits := randomMatrix(r, 4, vocab, 3)
			targets := []int32{0, int32(vocab - 1), -1, int32(vocab / 2)}
			if vocab > 5 {
				logits.Row(3)[1] = float32(math.Inf(-1))
				logits.Row(0)[2] = 60
			}
			lse, entropy, logprob := make([]float32, 4), make([]float32, 4), make([]float32, 4)
			LogitStats(pool, logits, targets, lse, entropy, logprob)
			gl, ge := random(r, 4), random(r, 4)
			grad := clone(logits)
			LogitBackward(pool, grad, targets, lse, entropy, gl, ge)
			for i, target := range targets {
				row := widen([][]float32{logits.Row(i)})[0]
				l, h, p := logitReference(row, int(target))
				name := fmt.Sprintf("vocabulary %d, row %d", vocab, i)
				near(t, name+": lse", float64(lse[i]), l, 1e-6)
				near(t, name+": entropy", float64(entropy[i]), h, 3e-6)
				near(t, name+": logprob", float64(logprob[i]), p, 1e-6)
				checkLogitGradient(t, name, row, int(target), float64(gl[i]), float64(ge[i]), grad.Row(i))
			}
			all := append(append(append(append([]float32(nil), lse...), entropy...), logprob...), grad.Data...)
			if firsts[vocab] == nil {
				firsts[vocab] = all
			}
			sameBits(t, "another set", all, firsts[vocab])
		}
	})
}

// checkLogitGradient compares with central differences of gl·logprob + ge·entropy.
func checkLogitGradient(t *testing.T, name string, row []float64, target int, gl, ge float64, grad []float32) {
	t.Helper()
	const step = 1e-5
	loss := func() float64 {
		_, h, p := logitReference(row, target)
		if target < 0 {
			p = 0
		}
		return gl*p + ge*h
	}
	for j := range row {
		if j > 8 && j < len(row)-3 && j != target {
			continue
		}
		if math.IsInf(row[j], -1) {
			if grad[j] != 0 {
				t.Fatalf("%s: gradient %v of a logit of -Inf", name, grad[j])
			}
			continue
		}
		was := row[j]
		row[j] = was + step
		up := loss()
		row[j] = was - step
		down := loss()
		row[j] = was
		near(t, fmt.Sprintf("%s: gradient %d", name, j), float64(grad[j]), (up-down)/(2*step), 1e-5)
	}
}

func TestLogitStatsWithoutTargets(t *testing.T) {
	logits := randomMatrix(rand.New(rand.NewPCG(32, 1)), 2, 40, 0)
	lse := make([]float32, 2)
	LogitStats(nil, logits, nil, lse, nil, nil)
	if want := LogSumExp(logits.Row(1)); lse[1] != want {
		t.Errorf("lse %v, want %v", lse[1], want)
	}
}

func TestEntropyDiscriminator(t *testing.T) {
	pool := NewPool(2)
	defer pool.Close()
	firsts := map[int][]float32{}
	eachSet(t, func(t *testing.T) {
		for _, vocab := range []int{1, 5, 16, 100, 1000} {
			logits := randomMatrix(rand.New(rand.NewPCG(33, uint64(vocab))), 4, vocab, 3)
			if vocab > 5 {
				logits.Row(3)[1] = float32(math.Inf(-1))
				logits.Row(0)[2] = 60
				for j := range logits.Row(1) {
					logits.Row(1)[j] = -2
				}
			}
			before, got := clone(logits), make([]float32, 4)
			EntropyDiscriminator(pool, logits, got)
			sameBits(t, "the logits after", logits.Data, before.Data)
			for i := range got {
				row := widen([][]float32{logits.Row(i)})[0]
				lse, h, _ := logitReference(row, -1)
				want := 0.0
				for _, v := range row {
					if p := math.Exp(v - lse); p > 0 {
						want += p * p * (h + v - lse)
					}
				}
				near(t, fmt.Sprintf("vocabulary %d, row %d", vocab, i), float64(got[i]), want, 3e-6)
			}
			if firsts[vocab] == nil {
				firsts[vocab] = got
			}
			sameBits(t, "another set", got, firsts[vocab])
		}
	})
}

// TestManySmallProbabilitiesCount: beside a large probability, a sum in f32 drops each of the small
// ones, which together are a thousandth.
func TestManySmallProbabilitiesCount(t *testing.T) {
	const vocab = 49152
	row := make([]float32, vocab)
	for i := 1; i < vocab; i++ {
		row[i] = -17
	}
	want := math.Log(1 + (vocab-1)*math.Exp(-17))
	eachSet(t, func(t *testing.T) {
		near(t, "LogSumExp", float64(LogSumExp(row)), want, 3e-6)
		near(t, "Logprob", float64(Logprob(row, 0)), -want, 3e-6)
	})
}

// TestExpSums: the total has the bits of the sum behind Logprob, and the sums are those of the blocks.
func TestExpSums(t *testing.T) {
	firsts := map[int][]float32{}
	eachSet(t, func(t *testing.T) {
		for _, vocab := range []int{1, 15, 16, 17, 511, 512, 513, 527, 528, 1040, 3001} {
			r := rand.New(rand.NewPCG(37, uint64(vocab)))
			x := random(r, vocab)
			for i := range x {
				if x[i] *= 20; i%5 == 3 {
					x[i] = float32(math.Inf(-1))
				}
			}
			m := Max(x)
			y, sums := make([]float32, vocab), make([]float64, (vocab+SumBlock-1)/SumBlock)
			total := ExpSums(y, x, m, sums)
			if want, _ := current().entropyRow(x, m); total != want {
				t.Errorf("%d logits: the total is %v, of Logprob %v", vocab, total, want)
			}
			for b, sum := range sums {
				want := 0.0
				for _, v := range y[b*SumBlock : min((b+1)*SumBlock, vocab)] {
					want += float64(v)
				}
				near(t, "a block's sum", sum, want, 1e-6)
			}
			for i := range x {
				near(t, "exp", float64(y[i]), math.Exp(float64(x[i])-float64(m)), 1e-5)
			}
			ExpSums(x, x, m, sums)
			sameBits(t, "in place", x, y)
			if firsts[vocab] == nil {
				firsts[vocab] = y
			}
			sameBits(t, "another set", y, firsts[vocab])
		}
	})
}
