package tinker

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
)

// lossFn is a loss of the API. It is no policy loss of a run: a client sends what it reads of each token. lp is the current
// log-probability, q the input logprobs, A advantages, w weights, r = exp(clamp(lp − q, ±20)):
//
//	cross_entropy        −w·lp
//	importance_sampling  −r·A
//	ppo                  −min(r·A, clip(r, lo, hi)·A)
//	cispo                −sg(clip(r, lo, hi))·A·lp
//	dro                  −(A·lp − ½·beta·(lp − q)²)
//	gspo                 ppo with the value of exp(mean(lp − q)) of the sequence, over sequence_ratio_mask, for r
//	trinity_ppo          (dual-clipped PPO + kl_coef·½·(lp − ref)²) / (masked tokens of the datum · num_total_datums)
//
// Each is a sum over the tokens, and negative weights are as good as others: the gradient adds up, however a client cuts its
// data.
type lossFn struct {
	of       formula
	settings map[string]float64
	inputs   map[*trinity.Experience]map[string][]float32
}

// formula is one of the losses. each writes the derivatives by lp into grad, and returns the loss.
type formula struct {
	inputs   []string           // that a datum must have
	optional []string           // that it may have
	settings map[string]float64 // with their defaults; NaN must be given
	each     func(d *datum, grad []float32) (sum float64)
	soft     bool // a token may have several targets
}

// datum is a sequence of n tokens, or of n targets if a token has several.
type datum struct {
	lp       []float32            // [n]
	in       map[string][]float32 // [n]
	settings map[string]float64
	metrics  trinity.Metrics
}

const (
	low  = "clip_low_threshold"
	high = "clip_high_threshold"
)

var sampledInputs = []string{"logprobs", "advantages"}

var formulas = map[string]formula{
	"cross_entropy": {inputs: []string{"weights"}, soft: true, each: func(d *datum, grad []float32) (sum float64) {
		for t, w := range d.in["weights"] {
			sum -= float64(w) * float64(d.lp[t])
			grad[t] = -w
		}
		return sum
	}},
	"importance_sampling": {inputs: sampledInputs, each: func(d *datum, grad []float32) float64 {
		return d.sum(grad, func(_ int, d, a float64) (loss, slope float64) {
			r := expClamped(d)
			return -r * a, -r * a
		})
	}},
	"ppo":   {inputs: sampledInputs, settings: map[string]float64{low: 0.8, high: 1.2}, each: ppo},
	"cispo": {inputs: sampledInputs, settings: map[string]float64{low: 0, high: 4}, each: cispo},
	"dro": {inputs: sampledInputs, settings: map[string]float64{"beta": 0.05}, each: func(d *datum, grad []float32) float64 {
		beta := d.settings["beta"]
		return d.sum(grad, func(t int, log, a float64) (loss, slope float64) {
			return -(a*float64(d.lp[t]) - beta*log*log/2), -a + beta*log
		})
	}},
	"gspo": {
		inputs: append(slices.Clone(sampledInputs), "sequence_ratio_mask"), settings: map[string]float64{low: 0.8, high: 1.2},
		each: gspo,
	},
	"trinity_ppo": {
		inputs: sampledInputs, optional: []string{"weights", "mask", "ref_logprobs"},
		settings: map[string]float64{"clip_range": 0.2, "clip_ratio_c": 3, "kl_coef": 0.001, "num_total_datums": math.NaN()},
		each:     trinityPPO,
	},
}

// newLoss returns a loss by its name, with the settings that a client gives.
func newLoss(name string, settings map[string]float64) (*lossFn, error) {
	of, ok := formulas[name]
	if !ok {
		return nil, fmt.Errorf("loss_fn %.40q is not in this version: pass loss_fn= one of %s", name,
			strings.Join(slices.Sorted(maps.Keys(formulas)), ", "))
	}
	l := &lossFn{of: of, settings: maps.Clone(of.settings), inputs: map[*trinity.Experience]map[string][]float32{}}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if _, ok := of.settings[key]; !ok {
			has := cmp.Or(strings.Join(slices.Sorted(maps.Keys(of.settings)), ", "), "no settings")
			return nil, fmt.Errorf("loss_fn_config: %s has no %.40q: it has %s", name, key, has)
		}
		if v := settings[key]; math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("loss_fn_config: %s of %s is %v: want a finite number", key, name, v)
		}
		l.settings[key] = settings[key]
	}
	for _, key := range slices.Sorted(maps.Keys(l.settings)) {
		if math.IsNaN(l.settings[key]) {
			return nil, fmt.Errorf("loss_fn_config: %s needs %s", name, key)
		}
	}
	if n, ok := l.settings["num_total_datums"]; ok && n < 1 {
		return nil, fmt.Errorf("loss_fn_config: num_total_datums is %v: want 1 or more", n)
	}
	return l, nil
}

// add gives the inputs [(T−1)·k] of an experience with k targets a token: input t·k is of Tokens[t+1].
func (l *lossFn) add(e *trinity.Experience, k int, inputs map[string][]float32) error {
	if k > 1 && !l.of.soft {
		return fmt.Errorf("loss_fn_inputs: target_tokens has %d numbers a token: cross_entropy alone takes several", k)
	}
	for _, name := range l.of.inputs {
		if inputs[name] == nil {
			return fmt.Errorf("loss_fn_inputs lacks %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		if !slices.Contains(l.of.inputs, name) && !slices.Contains(l.of.optional, name) {
			return fmt.Errorf("loss_fn_inputs has %.40q, which this loss does not read: it reads target_tokens, %s", name,
				strings.Join(append(slices.Clone(l.of.inputs), l.of.optional...), ", "))
		}
		if n := (len(e.Tokens) - 1) * k; len(inputs[name]) != n {
			return fmt.Errorf("loss_fn_inputs: %s has %d numbers: want %d, as many as target_tokens", name, len(inputs[name]), n)
		}
		for t, v := range inputs[name] {
			if x := float64(v); math.IsNaN(x) || math.IsInf(x, 0) {
				return fmt.Errorf("loss_fn_inputs: %s is %v at token %d: want a finite number", name, v, t)
			}
		}
	}
	if l.settings["kl_coef"] > 0 && inputs["ref_logprobs"] == nil {
		return fmt.Errorf("loss_fn_inputs lacks ref_logprobs: kl_coef is %v", l.settings["kl_coef"])
	}
	if slices.Contains(l.of.optional, "mask") && inputs["mask"] == nil && inputs["weights"] == nil {
		return fmt.Errorf("loss_fn_inputs lacks mask, or weights")
	}
	l.inputs[e] = inputs
	return nil
}

// compute returns the derivatives of a batch. Metrics: loss, and those of trinity_ppo; all are sums.
func (l *lossFn) compute(b *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	metrics := trinity.Metrics{"loss": 0}
	grads := make([]trinity.TokenGrads, len(now))
	for i, e := range b.Experiences {
		inputs, ok := l.inputs[e]
		if !ok {
			return nil, nil, fmt.Errorf("datum %d has no inputs", i)
		}
		grad := make([]float32, len(now[i].Logprob))
		k := len(grad) / len(e.Tokens)
		d := datum{now[i].Logprob[k:], inputs, l.settings, metrics}
		metrics["loss"] += l.of.each(&d, grad[k:])
		grads[i].Logprob = grad
	}
	return grads, metrics, nil
}

// sum adds up a loss of the tokens. of gets a token's lp − q and A, and returns its loss and its derivative by lp.
func (d *datum) sum(grad []float32, of func(t int, log, a float64) (loss, slope float64)) (sum float64) {
	for t, a := range d.in["advantages"] {
		loss, slope := of(t, float64(d.lp[t])-float64(d.in["logprobs"][t]), float64(a))
		sum += loss
		grad[t] = float32(slope)
	}
	return sum
}

func cispo(d *datum, grad []float32) float64 {
	return d.sum(grad, func(t int, log, a float64) (loss, slope float64) {
		c := clamp(expClamped(log), d.settings[low], d.settings[high])
		return -c * a * float64(d.lp[t]), -c * a
	})
}

func ppo(d *datum, grad []float32) float64 {
	return d.sum(grad, func(_ int, log, a float64) (loss, slope float64) {
		return surrogate(expClamped(log), a, d.settings[low], d.settings[high])
	})
}

// gspo is ppo with one ratio for the whole sequence (Zheng et al. 2025), whose derivative goes to each token.
func gspo(d *datum, grad []float32) float64 {
	total, n := 0.0, 0.0
	for t, m := range d.in["sequence_ratio_mask"] {
		if m != 0 {
			total += float64(d.lp[t]) - float64(d.in["logprobs"][t])
			n++
		}
	}
	ratio := expClamped(total / max(n, 1))
	return d.sum(grad, func(_ int, _, a float64) (loss, slope float64) {
		return surrogate(ratio, a, d.settings[low], d.settings[high])
	})
}

// surrogate returns −min(r·a, clip(r, low, high)·a), and its derivative by ln r.
func surrogate(r, a, low, high float64) (loss, slope float64) {
	if c := clamp(r, low, high); r*a > c*a {
		return -c * a, 0
	}
	return -r * a, -r * a
}

// trinityPPO is what newer versions of Trinity-RFT ask of a server of their own (server_loss_fn).
func trinityPPO(d *datum, grad []float32) (sum float64) {
	mask, ref := d.in["mask"], d.in["ref_logprobs"]
	if mask == nil {
		mask = d.in["weights"]
	}
	tokens := 0.0
	for _, m := range mask {
		tokens += float64(m)
	}
	if tokens == 0 {
		return 0
	}
	e, c, kl := d.settings["clip_range"], d.settings["clip_ratio_c"], d.settings["kl_coef"]
	share := 1 / (tokens * d.settings["num_total_datums"])
	for t, m := range mask {
		lp, a := float64(d.lp[t]), float64(d.in["advantages"][t])
		r := expClamped(lp - float64(d.in["logprobs"][t]))
		loss, slope := surrogate(r, a, 1-e, 1+e)
		isClipped := slope == 0 && a != 0
		if a < 0 && loss > -c*a {
			loss, slope, isClipped = -c*a, 0, true
		}
		if ref != nil {
			far := lp - float64(ref[t])
			loss, slope = loss+kl*far*far/2, slope+kl*far
			d.metrics["trinity/kl_sum"] += float64(m) * far * far / 2
		}
		sum += float64(m) * loss * share
		grad[t] = float32(float64(m) * slope * share)
		d.metrics["trinity/response_tokens"] += float64(m)
		d.metrics["trinity/ratio_sum"] += float64(m) * r
		d.metrics["trinity/ratio_squared_sum"] += float64(m) * r * r
		if isClipped {
			d.metrics["trinity/clipped_tokens"] += float64(m)
		}
	}
	return sum
}

func clamp(v, low, high float64) float64 { return min(max(v, low), high) }

func expClamped(v float64) float64 { return math.Exp(clamp(v, -20, 20)) }
