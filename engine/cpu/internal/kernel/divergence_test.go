package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// divergenceReference is a divergence in float64, by its definition.
func divergenceReference(d Divergence, student, teacher []float64) float64 {
	lseP, _, _ := logitReference(teacher, -1)
	lseQ, _, _ := logitReference(student, -1)
	sum := 0.0
	for i := range student {
		logP, logQ := teacher[i]-lseP, student[i]-lseQ
		p, q := math.Exp(logP), math.Exp(logQ)
		switch d := d.(type) {
		case ForwardKL:
			sum += p * (logP - logQ)
		case ReverseKL:
			sum += q * (logQ - logP)
		case JSD:
			logM := math.Log(d.Beta*p + (1-d.Beta)*q)
			sum += d.Beta*p*(logP-logM) + (1-d.Beta)*q*(logQ-logM)
		}
	}
	return sum
}

var divergences = []Divergence{ForwardKL{}, ReverseKL{}, JSD{0.5}, JSD{0.1}, JSD{0.9}}

func TestDivergences(t *testing.T) {
	pool := NewPool(2)
	defer pool.Close()
	firsts := map[string][]float32{}
	eachSet(t, func(t *testing.T) {
		for _, vocab := range []int{1, 5, 100, ratioBlock, 1300} {
			r := rand.New(rand.NewPCG(51, uint64(vocab)))
			student, teacher := randomMatrix(r, 4, vocab, 3), randomMatrix(r, 4, vocab, 1)
			copy(teacher.Row(2), student.Row(2))
			student.Row(3)[0], teacher.Row(3)[vocab-1] = 50, 50 // sure of different things
			lseS, lseT, value, inner := make([]float32, 4), make([]float32, 4), make([]float32, 4), make([]float32, 4)
			LogitStats(pool, student, nil, lseS, nil, nil)
			LogitStats(pool, teacher, nil, lseT, nil, nil)
			scale := random(r, 4)
			for _, d := range divergences {
				Divergences(pool, d, student, teacher, lseS, lseT, value, inner)
				grad := clone(teacher)
				DivergenceBackward(pool, d, student, grad, lseS, lseT, inner, scale)
				for i := range 4 {
					name := fmt.Sprintf("%T%v, vocabulary %d, row %d", d, d, vocab, i)
					wide := widen([][]float32{student.Row(i), teacher.Row(i)})
					near(t, name, float64(value[i]), divergenceReference(d, wide[0], wide[1]), 2e-6)
					if i == 2 && (value[i] != 0 || norm32(grad.Row(i)) != 0) {
						t.Fatalf("%s: %v, gradient %v: want nothing from oneself", name, value[i], norm32(grad.Row(i)))
					}
					checkDivergenceGradient(t, name, d, wide[0], wide[1], float64(scale[i]), grad.Row(i))
				}
				all, key := append(append([]float32(nil), value...), grad.Data...), fmt.Sprintf("%T%v %d", d, d, vocab)
				if firsts[key] == nil {
					firsts[key] = all
				}
				sameBits(t, "another set", all, firsts[key])
			}
		}
	})
}

func norm32(v []float32) (sum float64) {
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return sum
}

// checkDivergenceGradient compares with central differences.
func checkDivergenceGradient(t *testing.T, name string, d Divergence, student, teacher []float64, scale float64, grad []float32) {
	t.Helper()
	const step = 1e-4
	for j := range student {
		if j > 8 && j < len(student)-3 {
			continue
		}
		was := student[j]
		student[j] = was + step
		up := divergenceReference(d, student, teacher)
		student[j] = was - step
		down := divergenceReference(d, student, teacher)
		student[j] = was
		near(t, fmt.Sprintf("%s: gradient %d", name, j), float64(grad[j]), scale*(up-down)/(2*step), 2e-5)
	}
}

// Values by hand: p = (3/4, 1/4), q = (1/2, 1/2).
func TestDivergencesByHand(t *testing.T) {
	ln := math.Log
	student := NewMatrix([]float32{0, 0}, 1, 2)
	teacher := NewMatrix([]float32{float32(ln(3)), 0}, 1, 2)
	lseS, lseT := []float32{float32(ln(2))}, []float32{float32(ln(4))}
	for _, c := range []struct {
		d       Divergence
		value   float64
		derived [2]float64 // by the student's logits
	}{
		{ForwardKL{}, 0.75*ln(1.5) + 0.25*ln(0.5), [2]float64{-0.25, 0.25}},
		{ReverseKL{}, 0.5*ln(2.0/3) + 0.5*ln(2), [2]float64{0.25 * (ln(2.0/3) - ln(2)), 0.25 * (ln(2) - ln(2.0/3))}},
		{JSD{0.5}, 0.5*(0.75*ln(1.2)+0.25*ln(2.0/3)) + 0.5*(0.5*ln(0.8)+0.5*ln(4.0/3)), [2]float64{0.125 * (ln(0.8) - ln(4.0/3)), 0.125 * (ln(4.0/3) - ln(0.8))}},
	} {
		value, inner, grad := make([]float32, 1), make([]float32, 1), clone(teacher)
		Divergences(nil, c.d, student, teacher, lseS, lseT, value, inner)
		DivergenceBackward(nil, c.d, student, grad, lseS, lseT, inner, []float32{1})
		near(t, fmt.Sprintf("%T", c.d), float64(value[0]), c.value, 1e-6)
		for i := range 2 {
			near(t, fmt.Sprintf("%T: derivative %d", c.d, i), float64(grad.Data[i]), c.derived[i], 1e-6)
		}
	}
}

// Distributions that are nearly alike have a divergence of the second order in their difference,
// which rounding must not drown.
func TestSmallDivergencesAreNotDrowned(t *testing.T) {
	const vocab = 4000
	r := rand.New(rand.NewPCG(52, 1))
	student, teacher := randomMatrix(r, 1, vocab, 0), randomMatrix(r, 1, vocab, 0)
	for i := range teacher.Data {
		teacher.Data[i] = student.Data[i] + 2e-3*teacher.Data[i]
	}
	lseS, lseT, value, inner := make([]float32, 1), make([]float32, 1), make([]float32, 1), make([]float32, 1)
	LogitStats(nil, student, nil, lseS, nil, nil)
	LogitStats(nil, teacher, nil, lseT, nil, nil)
	for _, d := range divergences {
		Divergences(nil, d, student, teacher, lseS, lseT, value, inner)
		wide := widen([][]float32{student.Row(0), teacher.Row(0)})
		want := divergenceReference(d, wide[0], wide[1])
		if off := math.Abs(float64(value[0])/want - 1); off > 0.02 {
			t.Errorf("%T%v: %.4g, want %.4g", d, d, value[0], want)
		}
	}
}
