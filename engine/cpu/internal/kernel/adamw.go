package kernel

// AdamW holds the constants of one optimizer step (Loshchilov and Hutter 2019).
type AdamW struct {
	LearningRate float64
	Beta1, Beta2 float64
	Eps          float64
	WeightDecay  float64 // decoupled: parameters shrink by LearningRate·WeightDecay
	Correction1  float64 // bias correction 1 - Beta1^step, step counted from 1
	Correction2  float64 // bias correction 1 - Beta2^step
	GradScale    float64 // multiplies the gradient first: 1, or the factor from clipping by norm
}

// adamConstants are the constants as the kernels read them, in this order.
type adamConstants struct {
	gradScale, beta1, oneMinusBeta1, beta2, oneMinusBeta2 float32
	invCorrection2, eps, step, decay                      float32
}

func (o AdamW) constants() adamConstants {
	return adamConstants{
		gradScale: float32(o.GradScale), beta1: float32(o.Beta1), oneMinusBeta1: float32(1 - o.Beta1),
		beta2: float32(o.Beta2), oneMinusBeta2: float32(1 - o.Beta2), invCorrection2: float32(1 / o.Correction2),
		eps: float32(o.Eps), step: float32(o.LearningRate / o.Correction1), decay: float32(1 - o.LearningRate*o.WeightDecay),
	}
}

// AdamWStep is a step, which callers apply to the parts of their vectors.
type AdamWStep struct{ constants adamConstants }

// Prepare returns the step.
func (o AdamW) Prepare() AdamWStep { return AdamWStep{o.constants()} }

// Update updates param, and its moments m and v, by the gradient grad, all of one length:
// param ← param·(1 - lr·wd) - lr/c1·m / (√(v/c2) + eps). grad keeps its values.
func (s *AdamWStep) Update(param, grad, m, v []float32) {
	checkLen("AdamW: grad", grad, len(param))
	checkLen("AdamW: m", m, len(param))
	checkLen("AdamW: v", v, len(param))
	current().adamwRange(param, grad, m, v, &s.constants)
}

func (ks *kernels) adamwRange(p, g, m, v []float32, c *adamConstants) {
	n := len(p) &^ (lanes - 1)
	if n > 0 {
		ks.adamw(&p[0], &g[0], &m[0], &v[0], c, n)
	}
	if n < len(p) {
		t := tailPool.Get().(*tail)
		ks.adamw(t.pad(0, p[n:], 0), t.pad(1, g[n:], 0), t.pad(2, m[n:], 0), t.pad(3, v[n:], 0), c, lanes)
		copy(p[n:], t[0][:len(p)-n])
		copy(m[n:], t[2][:len(p)-n])
		copy(v[n:], t[3][:len(p)-n])
		tailPool.Put(t)
	}
}
