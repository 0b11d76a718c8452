package selector

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
)

// passRates estimates the pass rate of each of N rows as Beta(α, β), from α = β = 1. A step
// observes the pass rates s of some rows. They first say how capable the policy is between two
// reference models with the pass rates f₀ (weak) and f₁ (strong):
//
//	cap = (mean s − mean f₀) / (mean f₁ − mean f₀ + 10⁻⁶)   over the observed rows
//	p̃   = clip(f₀ + cap·(f₁ − f₀), 0, 1)                     for every row; s for observed rows
//	α  ← (1−λ)·α + λ + (1−ρ)·s·m     + ρ·p̃·m
//	β  ← (1−λ)·β + λ + (1−ρ)·(1−s)·m + ρ·(1−p̃)·m
//
// After the first step cap is an exponential moving average with factor 0.9. The terms with 1−ρ are
// for observed rows only (Shen et al. 2025, BOTS: generalised update with interpolated implicit
// evidence).
//
// Unlike Trinity-RFT: a step whose observed rows have mean f₁ and f₀ within 10⁻³ does not change
// cap, because a quotient with a divisor near 0 is meaningless and would stay in the average for a
// hundred steps; before any other step there is no cap, and p̃ is f₀ + (f₁ − f₀)/2.
type passRates struct {
	features    [][2]float64 // [N] f₀, f₁
	alpha, beta []float64    // [N] at least 1
	capability  float64
	capable     bool // whether capability was measured
	rho         float64
}

const (
	capDecay     = 0.9
	capEpsilon   = 1e-6
	capSpread    = 1e-3 // smallest |mean f₁ − mean f₀| at which cap is measured
	rhoDecay     = 0.5
	rhoTolerance = 0.25
)

func newPassRates(features [][2]float64, rho float64) passRates {
	p := passRates{features: features, alpha: make([]float64, len(features)), beta: make([]float64, len(features)), capability: 0.5, rho: rho}
	for i := range features {
		p.alpha[i], p.beta[i] = 1, 1
	}
	return p
}

// mean returns the expected pass rate of a row.
func (p *passRates) mean(row int) float64 { return p.alpha[row] / (p.alpha[row] + p.beta[row]) }

// draw returns a draw from the distribution of a row's pass rate.
func (p *passRates) draw(rng *rand.Rand, row int) float64 {
	x, y := gamma(rng, p.alpha[row]), gamma(rng, p.beta[row])
	return x / (x + y)
}

// gamma draws from Gamma(shape, 1), shape ≥ 1 (Marsaglia & Tsang 2000).
func gamma(rng *rand.Rand, shape float64) float64 {
	d := shape - 1./3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(1-rng.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// update learns from the observed pass rates of a step, at least one row. Each counts as m
// rollouts. lambda is the share of the past to forget.
func (p *passRates) update(observed map[int]float64, m, lambda float64, adaptive bool) {
	p.measure(observed)
	if adaptive && p.missedBy(observed) >= rhoTolerance {
		p.rho *= rhoDecay
	}
	for i := range p.alpha {
		rate, weight := p.inferred(i), p.rho*m
		if s, ok := observed[i]; ok {
			rate, weight = s, weight+(1-p.rho)*m
		}
		p.alpha[i] += lambda*(1-p.alpha[i]) + weight*rate // in this form it never falls below 1
		p.beta[i] += lambda*(1-p.beta[i]) + weight*(1-rate)
	}
}

// measure updates the capability.
func (p *passRates) measure(observed map[int]float64) {
	var s, weak, strong float64
	for _, row := range slices.Sorted(maps.Keys(observed)) { // in order, so that the sums are reproducible
		s, weak, strong = s+observed[row], weak+p.features[row][0], strong+p.features[row][1]
	}
	n := float64(len(observed))
	s, weak, strong = s/n, weak/n, strong/n
	if math.Abs(strong-weak) < capSpread {
		return
	}
	now := (s - weak) / (strong - weak + capEpsilon)
	if p.capable {
		now = capDecay*p.capability + (1-capDecay)*now
	}
	p.capability, p.capable = now, true
}

// inferred returns p̃ of a row.
func (p *passRates) inferred(row int) float64 {
	f := p.features[row]
	return min(max(f[0]+p.capability*(f[1]-f[0]), 0), 1)
}

// missedBy returns the mean absolute error of the inferred pass rates of the observed rows.
func (p *passRates) missedBy(observed map[int]float64) float64 {
	sum := 0.
	for _, row := range slices.Sorted(maps.Keys(observed)) {
		sum += math.Abs(p.inferred(row) - observed[row])
	}
	return sum / float64(len(observed))
}

// savedPassRates stores numbers as little-endian float64 bytes, so that they are restored with the
// same bits.
type savedPassRates struct {
	Alpha   []byte `json:"alpha"`
	Beta    []byte `json:"beta"`
	Scalars []byte `json:"scalars"` // capability, rho
	Capable bool   `json:"capable"`
}

func (p *passRates) save() savedPassRates {
	return savedPassRates{toBytes(p.alpha), toBytes(p.beta), toBytes([]float64{p.capability, p.rho}), p.capable}
}

func (p *passRates) restore(s savedPassRates) error {
	alpha, beta, scalars := fromBytes(s.Alpha), fromBytes(s.Beta), fromBytes(s.Scalars)
	if len(alpha) != len(p.features) || len(beta) != len(p.features) || len(scalars) != 2 {
		return fmt.Errorf("selector state: it has estimates of %d and %d rows, the dataset has %d: resume with the same data, or start a new run",
			len(alpha), len(beta), len(p.features))
	}
	for _, v := range slices.Concat(alpha, beta) {
		if !(v >= 1 && v < math.MaxFloat32) {
			return fmt.Errorf("selector state: an estimate is %v, want 1 or more", v)
		}
	}
	if c, rho := scalars[0], scalars[1]; !(math.Abs(c) < math.MaxFloat32 && rho >= 0 && rho <= 1) {
		return fmt.Errorf("selector state: capability %v and rho %v are impossible", c, rho)
	}
	p.alpha, p.beta, p.capability, p.rho, p.capable = alpha, beta, scalars[0], scalars[1], s.Capable
	return nil
}

func toBytes(v []float64) []byte {
	out := make([]byte, 0, 8*len(v))
	for _, x := range v {
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(x))
	}
	return out
}

func fromBytes(b []byte) []float64 {
	out := make([]float64, 0, len(b)/8)
	for ; len(b) >= 8; b = b[8:] {
		out = append(out, math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	return out
}
