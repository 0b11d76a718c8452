package model

import (
	"fmt"
	"hash/fnv"
	"math"
	"strings"
)

// The styles of RandomInit.
const (
	styleHF    = "hf"     // as transformers: all matrices N(0, initializer_range²)
	styleFanIn = "fan_in" // linear weights N(0, 1/fan_in), embedding N(0, (0.5/√hidden)²): tiny models learn with it
)

// RandomInit returns a model with normally distributed weights, norms that multiply by 1 and biases of 0. style
// is "hf" or "fan_in". Each number depends only on the seed, the tensor's name and its index, so
// every machine with any number of cores makes the same bytes.
func RandomInit(cfg *Config, seed uint64, style string) (*Model, error) {
	if style != styleHF && style != styleFanIn {
		return nil, fmt.Errorf("model: init style %q is unknown; known are %s, %s", style, styleHF, styleFanIn)
	}
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if cfg.Foreign != nil {
		return nil, fmt.Errorf("model: %s: random weights are not drawn for a model that the embedded engine does not compute: "+
			"save it by transformers first", cfg.Foreign.Why)
	}
	m := &Model{Config: cfg, tensors: map[string]Tensor{}}
	for _, spec := range cfg.Tensors() {
		m.tensors[spec.Name] = initial(cfg, spec, seed, style)
	}
	return m, nil
}

func initial(cfg *Config, spec TensorSpec, seed uint64, style string) Tensor {
	switch {
	case strings.HasSuffix(spec.Name, ".bias"):
		return NewTensor(spec.Name, spec.Shape, constant(0))
	case len(spec.Shape) == 1:
		return NewTensor(spec.Name, spec.Shape, constant(1-cfg.NormOffset))
	}
	columns := product(spec.Shape[1:])
	std := cfg.InitializerRange
	if style == styleFanIn {
		std = 1 / math.Sqrt(float64(columns))
		if spec.Name == embeddingName {
			std *= 0.5
		}
	}
	stream := newNormalStream(seed, spec.Name)
	return NewTensor(spec.Name, spec.Shape, func(dst []float32, from, _ int) error {
		for i := range dst {
			dst[i] = float32(stream.at(uint64(from*columns+i)) * std)
		}
		return nil
	})
}

func constant(value float32) func([]float32, int, int) error {
	return func(dst []float32, _, _ int) error {
		for i := range dst {
			dst[i] = value
		}
		return nil
	}
}

// normalStream is a sequence of standard normal numbers with random access.
type normalStream struct{ key uint64 }

func newNormalStream(seed uint64, name string) normalStream {
	h := fnv.New64a()
	h.Write([]byte(name))
	return normalStream{mix(mix(seed) ^ h.Sum64())}
}

// at returns number i by Marsaglia's polar method: numbers 2k and 2k+1 come from the first
// candidate point of pair k inside the unit disc. Every operation is rounded by itself (the
// conversions forbid fused multiply-add) and log is our own, so results are the same on every
// machine.
func (s normalStream) at(i uint64) float64 {
	pair := mix(s.key + i/2*0x9e3779b97f4a7c15)
	for attempt := uint64(0); ; attempt++ {
		u, v := uniform(mix(pair+2*attempt)), uniform(mix(pair+2*attempt+1))
		r := float64(u*u) + float64(v*v)
		if r >= 1 || r == 0 {
			continue
		}
		scale := math.Sqrt(-2 * log(r) / r)
		if i%2 == 0 {
			return u * scale
		}
		return v * scale
	}
}

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection whose outputs look
// random.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// uniform maps 53 bits to [−1, 1).
func uniform(x uint64) float64 { return float64(int64(x)>>11) * 0x1p-52 }

// log returns the natural logarithm of a positive normal number, to a few units in the last place:
// ln(m·2ᵉ) = e·ln 2 + 2·artanh((m−1)/(m+1)) with m between √½ and √2.
func log(x float64) float64 {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	z := (m - 1) / (m + 1)
	square := float64(z * z)
	sum := 0.0
	for k := 23; k >= 1; k -= 2 {
		sum = float64(sum*square) + 1/float64(k)
	}
	return float64(float64(e)*math.Ln2) + float64(2*z*sum)
}
