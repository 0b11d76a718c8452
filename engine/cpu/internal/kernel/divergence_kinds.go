package kernel

import "math"

// ForwardKL is KL(p‖q) = Σ p·ln(p/q), which makes the student cover all modes of the teacher. Its
// derivative by a logit of the student is q − p.
type ForwardKL struct{}

// ReverseKL is KL(q‖p) = Σ q·ln(q/p), which makes the student stay within modes of the teacher. Its
// derivative is q·(ln(q/p) − KL(q‖p)).
type ReverseKL struct{}

// JSD is the generalised Jensen–Shannon divergence β·KL(p‖m) + (1−β)·KL(q‖m) with m = β·p +
// (1−β)·q, 0 < β < 1 (Agarwal et al. 2024, equation 2). Its derivative is (1−β)·q·(ln(q/m) −
// KL(q‖m)).
type JSD struct{ Beta float64 }

// The Kullback–Leibler divergences are computed as Σ p·ln(p/q) − p + q. No term is negative, and
// the sums of p and of q cancel, together with rounding errors of the normalisers. The code
// converts products before it adds them, so that no compiler fuses the two.

func (ForwardKL) value(r *ratios, value, _ *float64) {
	sum := *value
	for i, d := range r.d[:r.n] {
		p := float64(r.p[i])
		sum += float64(p*float64(d)) - p + float64(r.q[i])
	}
	*value = sum
}

func (ForwardKL) gradient(r *ratios, g []float32, _, scale float32) {
	for i := range g {
		g[i] = mul(scale, r.q[i]-r.p[i])
	}
}

func (ReverseKL) value(r *ratios, value, inner *float64) {
	sum, in := *value, *inner
	for i, d := range r.d[:r.n] {
		q := float64(r.q[i])
		term := float64(q * -float64(d))
		in += term
		sum += term - q + float64(r.p[i])
	}
	*value, *inner = sum, in
}

func (ReverseKL) gradient(r *ratios, g []float32, inner, scale float32) {
	for i := range g {
		g[i] = mul(mul(scale, r.q[i]), -r.d[i]-inner)
	}
}

func (j JSD) value(r *ratios, value, inner *float64) {
	sum, in := *value, *inner
	r.withRatio()
	for i, d := range r.d[:r.n] {
		share := j.share(d, r.ratio[i])
		q := float64(float64(r.q[i]) * share)
		in += q
		sum += float64(float64(j.Beta*float64(r.p[i]))*(float64(d)+share)) + float64((1-j.Beta)*q)
	}
	*value, *inner = sum, in
}

func (j JSD) gradient(r *ratios, g []float32, inner, scale float32) {
	r.withRatio()
	scale = mul(scale, float32(1-j.Beta))
	for i := range g {
		g[i] = mul(mul(scale, r.q[i]), float32(j.share(r.d[i], r.ratio[i]))-inner)
	}
}

// farRatio is the ln(p/q), in nats, above which withRatio does not compute p/q: only p matters
// there.
const farRatio = 60

// share returns ln(q/m) = −ln(1 + β·(p/q − 1)), given ln(p/q) and p/q. ln(p/m) is ln(q/m) +
// ln(p/q).
func (j JSD) share(d, ratio float32) float64 {
	if d > farRatio {
		return -(float64(d) + math.Log(j.Beta))
	}
	return -math.Log(1 + float64(j.Beta*(float64(ratio)-1)))
}

// withRatio fills ratio.
func (r *ratios) withRatio() {
	for i, d := range r.d[:r.n] {
		r.ratio[i] = min(d, farRatio)
	}
	Exp(r.ratio[:r.n], r.ratio[:r.n])
}
