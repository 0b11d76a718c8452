package model

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/model/gguf"
	"github.com/trinity-go/trinity/internal/model/tokenizer"
)

// ggufType is a number type that WriteGGUF writes.
type ggufType struct {
	matrices gguf.Type
	ends     gguf.Type // of the embedding and the head
	fileType uint32    // general.file_type
}

var ggufTypes = map[string]ggufType{
	"f32":  {gguf.F32, gguf.F32, 0},
	"f16":  {gguf.F16, gguf.F16, 1},
	"q4_1": {gguf.Q4_1, gguf.Q8_0, 3}, // 4 bits are too few for the embedding
	"q8_0": {gguf.Q8_0, gguf.Q8_0, 7},
	"bf16": {gguf.BF16, gguf.BF16, 32},
}

// GGUFTypes lists the number types of WriteGGUF.
func GGUFTypes() []string { return slices.Sorted(maps.Keys(ggufTypes)) }

// WriteGGUF writes weights, which have the tensors of m, as a GGUF file that llama.cpp runs. If m is
// from a GGUF file, the new file has its metadata and its vocabulary. Otherwise text is the
// tokenizer, which may be nil. Norms and biases are F32 whatever the type; matrices whose rows are
// not whole blocks are F16. The file appears whole or not at all.
func WriteGGUF(path string, m *Model, weights Source, text *tokenizer.Tokenizer, dtype string) error {
	kind, ok := ggufTypes[dtype]
	if !ok {
		return fmt.Errorf("model: dtype %q; expected one of %s", dtype, strings.Join(GGUFTypes(), ", "))
	}
	metadata, err := ggufMetadata(m, text, strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))
	if err != nil {
		return fmt.Errorf("model: cannot write %s: %w", path, err)
	}
	metadata = append(metadata, gguf.Pair{Key: fileTypeKey, Value: kind.fileType}, gguf.Pair{Key: quantizationKey, Value: uint32(2)})
	entries, err := ggufEntries(m, weights, kind)
	if err != nil {
		return err
	}
	if err := gguf.Write(path, metadata, entries); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	return nil
}

// Keys that depend on how a file is written.
const (
	fileTypeKey     = "general.file_type"
	quantizationKey = "general.quantization_version"
	alignmentKey    = "general.alignment"
)

// ggufMetadata returns the metadata, without those that depend on how the file is written.
func ggufMetadata(m *Model, text *tokenizer.Tokenizer, name string) ([]gguf.Pair, error) {
	if m.gguf != nil {
		return slices.DeleteFunc(m.gguf.Metadata(), func(p gguf.Pair) bool {
			return slices.Contains([]string{fileTypeKey, quantizationKey, alignmentKey}, p.Key)
		}), nil
	}
	if err := m.Config.checkGGUF(); err != nil {
		return nil, err
	}
	var vocabulary *tokenizer.Vocabulary
	if text != nil {
		var err error
		if vocabulary, err = text.Vocabulary(m.Config.VocabSize); err != nil {
			return nil, err
		}
	}
	ends, err := m.Config.vocabularyPairs(vocabulary)
	return append(m.Config.ggufPairs(name), ends...), err
}

// ggufArchitecture returns llama.cpp's name for the architecture.
func (c *Config) ggufArchitecture() string {
	return cmp.Or(families[c.Architecture].gguf.name, c.Architecture)
}

// checkGGUF returns an error if llama.cpp would compute something else than this config says.
func (c *Config) checkGGUF() error {
	form := families[c.Architecture].gguf
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("llama.cpp has no %s models with "+format, append([]any{c.Architecture}, args...)...)
	}
	switch s := c.RopeScaling; {
	case c.Foreign != nil:
		return fmt.Errorf("%s: only models that the embedded engine computes are written as GGUF files", c.Foreign.Why)
	case c.Head != CausalLM:
		return refuse("a classification head")
	case !slices.Equal(c.NoRope, withoutRope(c.NumLayers, families[c.Architecture].noRopeEvery)):
		return refuse("RoPE in these layers (no_rope_layers)")
	case c.Mixture != nil:
		return fmt.Errorf("mixtures of experts are written as Hugging Face directories only")
	case form.unknown:
		return fmt.Errorf("%s models are written as Hugging Face directories only", c.Architecture)
	case form.lacks != "":
		return refuse("%s", form.lacks)
	case form.refuses != nil && form.refuses(c) != "":
		return refuse("%s", form.refuses(c))
	case !form.hasWindows(c):
		return refuse("sliding windows (sliding_window %d) in these layers", c.SlidingWindow)
	case !form.biases && (c.AttentionOutputBias || c.MLPBias):
		return refuse("a bias after the attention or in the MLP (attention_bias, mlp_bias)")
	case form.squareHeads && c.NumHeads*c.HeadDim != c.HiddenSize:
		return refuse("a head_dim other than hidden_size/num_attention_heads")
	case s == nil || s.Type == "linear":
		return nil
	case s.Type == "llama3" && form.divisors, s.Type == "longrope" && form.longFactors:
		return nil
	case s.Type == "yarn" && form.queryScale && s.AttentionFactor == 0 && s.MScale == s.MScaleAllDim && s.MScale > 0 && !s.KeepFraction:
		return nil
	case s.Type == "yarn" && s.QueryBeta == 0 && s.BetaFast == 32 && s.BetaSlow == 1 && s.AttentionFactor == 0 &&
		s.MScale == 0 && s.MScaleAllDim == 0 && !s.KeepFraction:
		return nil
	}
	return refuse("this rope_scaling (%s)", c.RopeScaling.Type)
}

// ggufPairs returns the metadata of a config.
func (c *Config) ggufPairs(name string) []gguf.Pair {
	kind := c.ggufArchitecture()
	pairs := []gguf.Pair{{Key: "general.architecture", Value: kind}, {Key: "general.type", Value: "model"}, {Key: "general.name", Value: name}}
	add := func(key string, value any) { pairs = append(pairs, gguf.Pair{Key: kind + "." + key, Value: value}) }
	add("block_count", uint32(c.NumLayers))
	add("context_length", uint32(c.MaxPositions))
	add("embedding_length", uint32(c.HiddenSize))
	add("feed_forward_length", uint32(c.IntermediateSize))
	add("attention.head_count", uint32(c.NumHeads))
	add("attention.head_count_kv", uint32(c.NumKVHeads))
	add("attention.key_length", uint32(c.HeadDim))
	add("attention.value_length", uint32(c.HeadDim))
	add("attention.layer_norm_rms_epsilon", float32(c.RMSNormEps))
	add("rope.dimension_count", uint32(c.rotated()))
	add("rope.freq_base", float32(c.RopeTheta))
	switch s := c.RopeScaling; {
	case s == nil || s.Type == "llama3":
	case s.Type == "longrope":
		add("rope.scaling.original_context_length", uint32(s.OriginalMaxPositions))
		add("rope.scaling.attn_factor", float32(s.longAttention()))
	default:
		add("rope.scaling.type", s.Type)
		add("rope.scaling.factor", float32(s.Factor))
		if s.Type == "yarn" {
			add("rope.scaling.original_context_length", uint32(s.OriginalMaxPositions))
		}
		if families[c.Architecture].gguf.queryScale {
			add("rope.scaling.yarn_beta_fast", float32(s.BetaFast))
			add("rope.scaling.yarn_beta_slow", float32(s.BetaSlow))
			add("rope.scaling.yarn_log_multiplier", float32(s.MScaleAllDim))
			add("attention.temperature_scale", float32(s.QueryBeta))
		}
	}
	if form := families[c.Architecture].gguf; form.pattern > 0 || form.window {
		add("attention.sliding_window", uint32(c.SlidingWindow))
	}
	for _, f := range c.factors() {
		if families[c.Architecture].gguf.factors {
			add(f.gguf, float32(*f.value))
		}
	}
	add("vocab_size", uint32(c.VocabSize))
	return pairs
}

// ggufEntries returns the tensors in the order of the config.
func ggufEntries(m *Model, weights Source, kind ggufType) ([]gguf.Entry, error) {
	tensors, err := collect(weights, m.Config)
	if err != nil {
		return nil, err
	}
	var entries []gguf.Entry
	add := func(name string, stored gguf.Type, t Tensor) {
		entries = append(entries, gguf.Entry{Name: name, Type: stored, Shape: t.Shape, Write: func(w io.Writer) error {
			return encodeRows(w, t, func(w io.Writer, numbers []float32) error { return gguf.Encode(w, stored, numbers) })
		}})
	}
	for _, spec := range m.Config.Tensors() {
		t := tensors[spec.Name]
		if m.Config.interleaved(t.Name) {
			t = NewTensor(t.Name, t.Shape, permuted(t, m.Config.HeadDim))
		}
		if len(t.Shape) == 1 && strings.HasSuffix(t.Name, "norm.weight") {
			t = NewTensor(t.Name, t.Shape, shifted(t.Rows, m.Config.NormOffset))
		}
		add(m.Config.ggufName(t.Name), kind.of(t), t)
	}
	vector := func(name string, values []float32) {
		if values == nil {
			return
		}
		add(name, gguf.F32, NewTensor(name, []int{len(values)}, func(dst []float32, from, to int) error {
			copy(dst, values[from:to])
			return nil
		}))
	}
	vector(ropeFactorsName, m.ropeDivisors())
	if s := m.Config.RopeScaling; s != nil {
		vector(longFactorsName, narrow(s.LongFactors))
		vector(shortFactorsName, narrow(s.ShortFactors))
	}
	return entries, nil
}

// of returns the type of a tensor.
func (k ggufType) of(t Tensor) gguf.Type {
	kind := k.matrices
	if t.Name == embeddingName || t.Name == headName {
		kind = k.ends
	}
	switch {
	case len(t.Shape) == 1:
		return gguf.F32
	case t.RowLen()%kind.Block() != 0:
		return gguf.F16
	}
	return kind
}

// ropeDivisors returns the values of rope_freqs.weight; nil if the model has none.
func (m *Model) ropeDivisors() []float32 {
	if m.Config.RopeScaling == nil || m.Config.RopeScaling.Type != "llama3" {
		return nil
	}
	plain := *m.Config
	plain.RopeScaling = nil
	before, _ := plain.InverseFrequencies(0)
	after, _ := m.Config.InverseFrequencies(0)
	divisors := make([]float32, len(before))
	for i := range divisors {
		divisors[i] = float32(before[i] / after[i])
	}
	return divisors
}

// permuted interleaves the rows of each head, as unpermuted undoes it: row 2i+j of a head is its row
// j·half+i. It reads whole heads.
func permuted(t Tensor, headDim int) func(dst []float32, from, to int) error {
	half, rowLen := headDim/2, t.RowLen()
	return func(dst []float32, from, to int) error {
		first := from / headDim * headDim
		last := min((to+headDim-1)/headDim*headDim, t.Shape[0])
		rows := make([]float32, (last-first)*rowLen)
		if err := t.Rows(rows, first, last); err != nil {
			return err
		}
		for row := from; row < to; row++ {
			r := row % headDim
			source := row - r + r%2*half + r/2
			copy(dst[(row-from)*rowLen:][:rowLen], rows[(source-first)*rowLen:])
		}
		return nil
	}
}

func narrow(values []float64) (out []float32) {
	for _, v := range values {
		out = append(out, float32(v))
	}
	return out
}

// ggufName returns the name in GGUF of a tensor of Config.Tensors.
func (c *Config) ggufName(name string) string {
	for _, end := range modelNames {
		if name == end.huggingFace {
			return end.gguf
		}
	}
	layer, rest, _ := strings.Cut(strings.TrimPrefix(name, "model.layers."), ".")
	dot := strings.LastIndex(rest, ".")
	for _, names := range []map[string]string{families[c.Architecture].gguf.tensors, layerNames, c.Norms().ggufNames()} {
		for short, long := range names {
			if long == rest[:dot] {
				return "blk." + layer + "." + short + rest[dot:]
			}
		}
	}
	panic("model: no GGUF name for " + name) // checkGGUF refuses other models
}
