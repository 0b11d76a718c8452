package advantage

import (
	"math"
	"testing"
)

func softmax(z []float64) []float64 {
	p, sum := make([]float64, len(z)), 0.0
	for i, v := range z {
		p[i] = math.Exp(v)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// divergence returns JSD_λ, or its limit at the ends.
func divergence(lambda float64, teacher, student []float64) float64 {
	sum := 0.0
	for v, t := range teacher {
		s := student[v]
		m := lambda*t + (1-lambda)*s
		switch lambda {
		case 0:
			sum += t * math.Log(t/s)
		case 1:
			sum += s * math.Log(s/t)
		default:
			sum += lambda*t*math.Log(t/m) + (1-lambda)*s*math.Log(s/m)
		}
	}
	return sum
}

// The policy gradient over all tokens, weighted by their probabilities, is minus the derivative of
// the divergence.
func TestJSDDescendsTheDivergence(t *testing.T) {
	teacher, z := softmax([]float64{0.3, -1, 2, 0}), []float64{-0.5, 1, 0.2, 3}
	for _, lambda := range []float64{0, 0.01, 0.3, 0.5, 0.9, 0.99, 1} {
		student := softmax(z)
		mean := 0.0
		for v, s := range student {
			_, d := jensenShannon(lambda, math.Log(teacher[v]/s))
			if d < 0 {
				t.Errorf("λ %v: token %d counts %v, which is negative", lambda, v, d)
			}
			mean += s * d
		}
		if want := divergence(lambda, teacher, student); math.Abs(mean-want) > 1e-12 {
			t.Errorf("λ %v: the mean estimate is %v, want %v", lambda, mean, want)
		}
		for k := range z {
			got := 0.0
			for v, s := range student {
				score := -student[k] // ∂ln S_v/∂z_k
				if v == k {
					score++
				}
				a, _ := jensenShannon(lambda, math.Log(teacher[v]/s))
				got += s * a * score
			}
			const h = 1e-5
			z[k] += h
			above := divergence(lambda, teacher, softmax(z))
			z[k] -= 2 * h
			below := divergence(lambda, teacher, softmax(z))
			z[k] += h
			if want := -(above - below) / (2 * h); math.Abs(got-want) > 1e-8 {
				t.Errorf("λ %v, logit %d: the policy gradient is %v, the descent of the divergence %v", lambda, k, got, want)
			}
		}
	}
}

func TestJSDStaysFiniteFarApart(t *testing.T) {
	for _, lambda := range []float64{0, 1e-3, 0.5, 1 - 1e-3, 1} {
		for _, d := range []float64{-50, -20, -1e-9, 0, 1e-9, 20, 50} {
			a, j := jensenShannon(lambda, d)
			if math.IsNaN(a) || math.IsInf(a, 0) || math.IsNaN(j) || math.IsInf(j, 0) || a*d < 0 {
				t.Errorf("λ %v, ln T − ln S = %v: advantage %v, divergence %v", lambda, d, a, j)
			}
		}
	}
}
