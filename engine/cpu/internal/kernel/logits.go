package kernel

import (
	"fmt"
	"math"
)

// LogitStats describes the distribution softmax(logits) of each row of logits [rows, vocab]: lse =
// ln Σ e^logits, the entropy in nats, and the log probability in nats of the row's target (no
// target: a negative one; its logprob is 0). lse, entropy, logprob [rows]; entropy or logprob may
// be nil, targets too if logprob is. A logit of -Inf excludes its token.
func LogitStats(pool *Pool, logits Matrix, targets []int32, lse, entropy, logprob []float32) {
	logits.checkShape("LogitStats: logits", logits.Rows, logits.Cols)
	checkLen("LogitStats: lse", lse, logits.Rows)
	if entropy != nil {
		checkLen("LogitStats: entropy", entropy, logits.Rows)
	}
	if logprob != nil {
		checkLen("LogitStats: logprob", logprob, logits.Rows)
		checkTargets("LogitStats", targets, logits)
	}
	ks := current()
	pool.runRows(logits.Rows, 8*logits.Cols, func(from, to int) {
		for i := from; i < to; i++ {
			row := logits.Row(i)
			m := ks.maxRow(row)
			sum, weighted := ks.entropyRow(row, m)
			logSum := math.Log(sum)
			lse[i] = float32(float64(m) + logSum)
			if entropy != nil {
				entropy[i] = float32(logSum - weighted/sum)
			}
			if logprob != nil {
				logprob[i] = 0
				if targets[i] >= 0 {
					logprob[i] = float32(float64(row[targets[i]]) - float64(m) - logSum)
				}
			}
		}
	})
}

// EntropyDiscriminator fills out [rows] with Σ_v p_v²·(H + ln p_v), in nats, for each row of logits
// [rows, vocab], where p = softmax(logits) and H is its entropy. With x the logits minus their
// largest, s = Σ eˣ, w = Σ x·eˣ, s₂ = Σ e²ˣ and w₂ = Σ 2x·e²ˣ, it is (w₂/2 − s₂·w/s) / s². It
// doubles each row in place and halves it again, which is exact.
func EntropyDiscriminator(pool *Pool, logits Matrix, out []float32) {
	logits.checkShape("EntropyDiscriminator: logits", logits.Rows, logits.Cols)
	checkLen("EntropyDiscriminator: out", out, logits.Rows)
	ks := current()
	pool.runRows(logits.Rows, 16*logits.Cols, func(from, to int) {
		for i := from; i < to; i++ {
			row := logits.Row(i)
			m := ks.maxRow(row)
			s, w := ks.entropyRow(row, m)
			Scale(row, row, 2)
			s2, w2 := ks.entropyRow(row, 2*m)
			Scale(row, row, 0.5)
			out[i] = float32((w2/2 - s2*w/s) / (s * s))
		}
	})
}

// Logprob returns the logprob of [LogitStats] for one row of logits [vocab], with the same bits.
func Logprob(logits []float32, target int32) float32 {
	var out [1]float32
	Logprobs(out[:], logits, []int32{target})
	return out[0]
}

// Logprobs sets out [n] to the [Logprob] of each of the targets [n].
func Logprobs(out, logits []float32, targets []int32) {
	checkLen("Logprobs: out", out, len(targets))
	ks := current()
	m := ks.maxRow(logits)
	sum, _ := ks.entropyRow(logits, m)
	logSum := math.Log(sum)
	for i, target := range targets {
		out[i] = float32(float64(logits[target]) - float64(m) - logSum)
	}
}

// LogitBackward replaces logits [rows, vocab] by the gradient of a loss with respect to them, where
// gradLogprob and gradEntropy [rows] are its derivatives by logprob and entropy of [LogitStats]:
//
//	p       = softmax(logits)
//	dlogits = gradLogprob·(onehot(target) - p) - gradEntropy·p·(ln p + entropy)
//
// lse and entropy [rows] are LogitStats's. gradEntropy may be nil, entropy too in that case. Rows
// without a target have no gradLogprob part.
func LogitBackward(pool *Pool, logits Matrix, targets []int32, lse, entropy, gradLogprob, gradEntropy []float32) {
	logits.checkShape("LogitBackward: logits", logits.Rows, logits.Cols)
	checkLen("LogitBackward: lse", lse, logits.Rows)
	checkLen("LogitBackward: gradLogprob", gradLogprob, logits.Rows)
	checkTargets("LogitBackward", targets, logits)
	if gradEntropy != nil {
		checkLen("LogitBackward: gradEntropy", gradEntropy, logits.Rows)
		checkLen("LogitBackward: entropy", entropy, logits.Rows)
	}
	ks := current()
	pool.runRows(logits.Rows, 8*logits.Cols, func(from, to int) {
		for i := from; i < to; i++ {
			var a, b float32
			if targets[i] >= 0 {
				a = -gradLogprob[i]
			}
			if gradEntropy != nil {
				b = -gradEntropy[i]
				a += mul(b, entropy[i])
			}
			row := logits.Row(i)
			ks.logitGradRow(row, lse[i], a, b)
			if targets[i] >= 0 {
				row[targets[i]] += gradLogprob[i]
			}
		}
	})
}

func (ks *kernels) logitGradRow(x []float32, lse, a, b float32) {
	n := len(x) &^ (lanes - 1)
	if n > 0 {
		ks.logitGrad(&x[0], lse, a, b, n)
	}
	if n < len(x) {
		t := tailPool.Get().(*tail)
		ks.logitGrad(t.pad(0, x[n:], 0), lse, a, b, lanes)
		copy(x[n:], t[0][:len(x)-n])
		tailPool.Put(t)
	}
}

// checkTargets panics unless there is a target below vocab for every row.
func checkTargets(what string, targets []int32, logits Matrix) {
	if len(targets) != logits.Rows {
		panic(fmt.Sprintf("kernel: %s: %d targets for %d rows", what, len(targets), logits.Rows))
	}
	for i, t := range targets {
		if int(t) >= logits.Cols {
			panic(fmt.Sprintf("kernel: %s: target %d of row %d, vocabulary %d", what, t, i, logits.Cols))
		}
	}
}
