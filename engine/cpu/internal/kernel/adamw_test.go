package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestAdamW follows the update rule in float64 for three steps.
func TestAdamW(t *testing.T) {
	const n = 16<<10 + 37
	var first []float32
	eachSet(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(41, 1))
		param, m, v := random(r, n), make([]float32, n), make([]float32, n)
		wide := widen([][]float32{param, m, v})
		cut, cutM, cutV := slices.Clone(param), make([]float32, n), make([]float32, n)
		for step := 1; step <= 3; step++ {
			grad := random(r, n)
			o := AdamW{LearningRate: 0.01, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, WeightDecay: 0.1, GradScale: 0.5,
				Correction1: 1 - math.Pow(0.9, float64(step)), Correction2: 1 - math.Pow(0.99, float64(step))}
			adam := o.Prepare()
			adam.Update(param, grad, m, v)
			for _, p := range [][2]int{{0, 256}, {256, 1001}, {1001, n}} {
				from, to := p[0], p[1]
				adam.Update(cut[from:to], grad[from:to], cutM[from:to], cutV[from:to])
			}
			for i, g := range grad {
				adamReference(o, &wide[0][i], float64(g), &wide[1][i], &wide[2][i])
			}
		}
		for _, i := range []int{0, 1, 5000, 16<<10 - 1, 16 << 10, n - 1} {
			near(t, "param", float64(param[i]), wide[0][i], 1e-6)
			near(t, "m", float64(m[i]), wide[1][i], 1e-6)
			near(t, "v", float64(v[i]), wide[2][i], 1e-6)
		}
		if first == nil {
			first = param
		}
		sameBits(t, "another set", param, first)
		sameBits(t, "part by part", cut, param)
	})
}

func adamReference(o AdamW, p *float64, g float64, m, v *float64) {
	g *= o.GradScale
	*m = o.Beta1**m + (1-o.Beta1)*g
	*v = o.Beta2**v + (1-o.Beta2)*g*g
	*p -= o.LearningRate * o.WeightDecay * *p
	*p -= o.LearningRate * (*m / o.Correction1) / (math.Sqrt(*v/o.Correction2) + o.Eps)
}
