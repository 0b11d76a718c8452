package model

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/trinity-go/trinity/internal/model/gguf"
	"github.com/trinity-go/trinity/internal/model/tokenizer"
)

// ropeTensors are the tensors in which GGUF keeps a part of the config: llama3's frequency divisors and the
// factors of longrope.
var ropeTensors = []string{ropeFactorsName, longFactorsName, shortFactorsName}

const (
	ropeFactorsName  = "rope_freqs.weight"
	longFactorsName  = "rope_factors_long.weight"
	shortFactorsName = "rope_factors_short.weight"
)

// metadata reads typed values of a GGUF file and collects the errors.
type metadata struct {
	file *gguf.File
	errs []error
}

func (m *metadata) integer(key string, missing int) int {
	value, ok := m.file.Value(key)
	if !ok {
		return missing
	}
	n := int64(-1)
	switch v := reflect.ValueOf(value); {
	case v.CanInt():
		n = v.Int()
	case v.CanUint():
		n = int64(min(v.Uint(), math.MaxInt64))
	}
	if n < 0 || n > 1<<30 {
		m.fail("metadata %s is %v; expected a positive integer", key, value)
		return missing
	}
	return int(n)
}

func (m *metadata) fail(format string, args ...any) {
	m.errs = append(m.errs, fmt.Errorf(format, args...))
}

func (m *metadata) number(key string, missing float64) float64 {
	switch v, ok := m.file.Value(key); v := v.(type) {
	case float32:
		return shortest(v)
	case float64:
		return v
	default:
		if ok {
			m.fail("metadata %s is %v; expected a float", key, v)
		}
		return missing
	}
}

// optional returns a value of type T and whether the key has one. A value of another type is an
// error.
func optional[T any](m *metadata, key string) (T, bool) {
	value, ok := m.file.Value(key)
	if !ok {
		var zero T
		return zero, false
	}
	v, isT := value.(T)
	if !isT {
		m.fail("metadata %s is a %T; expected a %T", key, value, v)
	}
	return v, isT
}

const notEnough = "GGUF files do not say enough of models with %s; use the model's Hugging Face directory"

func readGGUFMetadata(file *gguf.File) (*Config, *tokenizer.Vocabulary, error) {
	m := &metadata{file: file}
	architecture, _ := optional[string](m, "general.architecture")
	fam, name, err := ggufFamily(architecture)
	switch {
	case err == nil && (fam.foreign || fam.gguf.unknown):
		err = fmt.Errorf("%q models are not read from GGUF files; use the model's Hugging Face directory", architecture)
	case err == nil && fam.gguf.lacks != "":
		err = fmt.Errorf(notEnough, fam.gguf.lacks)
	case err == nil && fam.experts:
		err = fmt.Errorf("%q is a mixture of experts, which GGUF files do not support here; use the model's Hugging Face directory", architecture)
	}
	if err != nil {
		return nil, nil, together(append(m.errs, fmt.Errorf("general.architecture: %w", err)))
	}
	vocabulary := m.vocabulary()
	c := &Config{Architecture: name, InitializerRange: 0.02, variation: fam.variation}
	if n := m.integer("split.count", 1); n > 1 {
		m.fail("the model is split into %d files; merge them into one first", n)
	}
	m.sizes(c, vocabulary)
	m.heads(c)
	m.biases(c)
	m.variation(c, &fam.gguf)
	if len(m.errs) == 0 {
		m.errs = append(m.errs, c.check())
	}
	if len(m.errs) == 1 && m.errs[0] == nil {
		c.NoRope = withoutRope(c.NumLayers, fam.noRopeEvery)
		m.errs = append(m.errs, m.ropeFactors(c))
	}
	if vocabulary != nil {
		c.BOS, c.EOS, c.PAD = ids(vocabulary.BOS), m.ends(vocabulary), ids(vocabulary.PAD)
	}
	return c, vocabulary, together(m.errs)
}

func ids(id int32) []int32 {
	if id < 0 {
		return nil
	}
	return []int32{id}
}

func (m *metadata) sizes(c *Config, vocabulary *tokenizer.Vocabulary) {
	prefix := c.ggufArchitecture() + "."
	c.HiddenSize = m.integer(prefix+"embedding_length", 0)
	c.IntermediateSize = m.integer(prefix+"feed_forward_length", 0)
	c.NumLayers = m.integer(prefix+"block_count", 0)
	c.MaxPositions = m.integer(prefix+"context_length", 0)
	c.RMSNormEps = m.number(prefix+"attention.layer_norm_rms_epsilon", 0)
	c.RopeTheta = m.number(prefix+"rope.freq_base", 10000)
	if embedding, ok := m.file.Tensor("token_embd.weight"); ok && len(embedding.Shape) == 2 {
		c.VocabSize = embedding.Shape[0]
	}
	if vocabulary != nil && len(vocabulary.Tokens) > c.VocabSize {
		m.fail("the vocabulary has %d tokens but token_embd.weight has %d rows", len(vocabulary.Tokens), c.VocabSize)
	}
	if n := m.integer(prefix+"expert_count", 0); n > 0 {
		m.fail("the model has %d experts, which GGUF files do not support here; use the model's Hugging Face directory", n)
	}
}

func (m *metadata) heads(c *Config) {
	prefix := c.ggufArchitecture() + "."
	c.NumHeads = m.integer(prefix+"attention.head_count", 0)
	c.NumKVHeads = m.integer(prefix+"attention.head_count_kv", c.NumHeads)
	rotated := m.integer(prefix+"rope.dimension_count", 0)
	if c.NumHeads > 0 {
		c.HeadDim = m.integer(prefix+"attention.key_length", c.HiddenSize/c.NumHeads)
	}
	if v := m.integer(prefix+"attention.value_length", c.HeadDim); v != c.HeadDim {
		m.fail("keys have %d dimensions a head and values %d; they must agree", c.HeadDim, v)
	}
	switch {
	case rotated == 0 || rotated == c.HeadDim:
	case families[c.Architecture].rotation.partial:
		c.RotaryDim = rotated
	default:
		m.fail("rope.dimension_count is %d; only the head's whole %d dimensions are supported", rotated, c.HeadDim)
	}
	m.scaling(c)
	if window := m.integer(prefix+"attention.sliding_window", 0); window > 0 && families[c.Architecture].gguf.window {
		c.SlidingWindow, c.SlidingLayers = window, slices.Repeat([]bool{true}, min(c.NumLayers, maxLayers))
	}
}

func (m *metadata) scaling(c *Config) {
	prefix := c.ggufArchitecture() + ".rope.scaling."
	kind, _ := optional[string](m, prefix+"type")
	if _, long := m.file.Tensor(shortFactorsName); long {
		m.longRope(c, prefix)
		return
	}
	switch kind {
	case "", "none":
	case "linear":
		c.RopeScaling = &RopeScaling{Type: "linear", Factor: m.number(prefix+"factor", 0)}
	case "yarn":
		c.RopeScaling = &RopeScaling{
			Type: "yarn", Factor: m.number(prefix+"factor", 0),
			BetaFast: m.number(prefix+"yarn_beta_fast", 32), BetaSlow: m.number(prefix+"yarn_beta_slow", 1),
			OriginalMaxPositions: m.integer(prefix+"original_context_length", c.MaxPositions),
		}
	default:
		m.fail("metadata %stype is %q; supported are none, linear, yarn", prefix, kind)
	}
	if !families[c.Architecture].gguf.queryScale {
		return
	}
	s := c.RopeScaling
	if s == nil || s.Type != "yarn" {
		m.fail("metadata %stype is %q; a %s needs yarn", prefix, kind, c.Architecture)
		return
	}
	s.MScale = m.number(prefix+"yarn_log_multiplier", 0)
	s.MScaleAllDim = s.MScale
	s.QueryBeta = m.number(c.ggufArchitecture()+".attention.temperature_scale", 0)
}

// longRope reads the factors of longrope, the only trace of it in GGUF files.
func (m *metadata) longRope(c *Config, prefix string) {
	s := &RopeScaling{Type: "longrope", OriginalMaxPositions: m.integer(prefix+"original_context_length", 0)}
	s.Factor = max(1, float64(c.MaxPositions)/float64(max(1, s.OriginalMaxPositions)))
	s.ShortFactors, s.LongFactors = m.vector(shortFactorsName), m.vector(longFactorsName)
	derived := s.longAttention()
	if factor := m.number(prefix+"attn_factor", 0); factor != 0 && math.Abs(factor-derived) > 1e-6 {
		s.AttentionFactor = factor
	}
	c.RopeScaling = s
}

// vector reads a tensor that is a part of the config.
func (m *metadata) vector(name string) []float64 {
	stored, ok := m.file.Tensor(name)
	if !ok || len(stored.Shape) != 1 || stored.Shape[0] > maxDimension {
		m.fail("tensor %s is missing or is no vector", name)
		return nil
	}
	narrow, wide := make([]float32, stored.Shape[0]), make([]float64, stored.Shape[0])
	if err := stored.Range(narrow, 0); err != nil {
		m.fail("tensor %s: %w", name, err)
	}
	for i, v := range narrow {
		wide[i] = shortest(v)
	}
	return wide
}

// biases finds out from the tensors whether there are biases and an untied head; the metadata do
// not say.
func (m *metadata) biases(c *Config) {
	has := func(name string) bool {
		_, ok := m.file.Tensor(name)
		return ok
	}
	c.TieEmbeddings = !has("output.weight")
	c.AttentionBias = has("blk.0.attn_q.bias")
	c.AttentionOutputBias = has("blk.0.attn_output.bias")
	c.MLPBias = has("blk.0.ffn_gate.bias")
}

// variation sets what a family's form has, and refuses what it cannot say.
func (m *metadata) variation(c *Config, form *ggufForm) {
	if form.pattern > 0 {
		key := c.ggufArchitecture() + ".attention.sliding_window"
		if c.SlidingWindow = m.integer(key, 0); c.SlidingWindow == 0 {
			m.fail("metadata %s is missing", key)
		}
		c.SlidingLayers = slidingLayers(min(c.NumLayers, maxLayers), form.pattern)
	}
	for _, f := range c.factors() {
		if form.factors {
			*f.value = m.number(c.ggufArchitecture()+"."+f.gguf, 0)
		}
	}
	if form.read != nil {
		form.read(c)
	}
	if form.refuses != nil {
		if what := form.refuses(c); what != "" {
			m.fail(notEnough, what)
		}
	}
}

// ropeFactors recognises llama3 scaling by the divisors in rope_freqs.weight, the only trace of it
// in GGUF files. Released models differ in the factor alone.
func (m *metadata) ropeFactors(c *Config) error {
	stored, ok := m.file.Tensor(ropeFactorsName)
	if !ok {
		return nil
	}
	if len(stored.Shape) != 1 || stored.Shape[0] != c.HeadDim/2 || stored.Type != gguf.F32 {
		return fmt.Errorf("tensor %s is %s %v; expected F32 [%d]", ropeFactorsName, stored.Type, stored.Shape, c.HeadDim/2)
	}
	divisors := make([]float32, c.HeadDim/2)
	if err := stored.Range(divisors, 0); err != nil {
		return err
	}
	factor := float32(1)
	for _, d := range divisors {
		factor = max(factor, d)
	}
	plain, _ := c.InverseFrequencies(0)
	c.RopeScaling = &RopeScaling{Type: "llama3", Factor: float64(factor), LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositions: 8192}
	scaled, _ := c.InverseFrequencies(0)
	for i, d := range divisors {
		if expected := plain[i] / scaled[i]; !(math.Abs(float64(d)-expected) <= 1e-3*expected) {
			return fmt.Errorf("tensor %s: divisor %d is %v, not llama3's %v; this scaling is not supported", ropeFactorsName, i, d, expected)
		}
	}
	return c.check()
}
