package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/durable"
)

const (
	configName     = "config.json"
	generationName = "generation_config.json"
	maxConfigSize  = 16 << 20 // bytes; real configs have a few thousand
)

// ReadConfig reads the config of a model without its weights: the metadata of a .gguf file, or
// config.json and, if present, generation_config.json of a Hugging Face directory.
func ReadConfig(path string) (*Config, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if info.IsDir() {
		return readDirConfig(path)
	}
	m, err := Open(path)
	if err != nil {
		return nil, err
	}
	return m.Config, m.Close()
}

func readDirConfig(dir string) (*Config, error) {
	path := filepath.Join(dir, configName)
	text, err := readSmall(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("model: %s is not a model directory: it has no %s%s", dir, configName, adapterHint(dir))
	} else if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	c, err := ParseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("model: %s: %w", path, err)
	}
	path = filepath.Join(dir, generationName)
	text, err = readSmall(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	} else if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if err := c.addGeneration(text); err != nil {
		return nil, fmt.Errorf("model: %s: %w", path, err)
	}
	return c, nil
}

// adapterHint returns a hint for a user who takes the directory of an adapter for a model's.
func adapterHint(dir string) string {
	if _, err := os.Stat(filepath.Join(dir, adapterConfigName)); err != nil {
		return ""
	}
	return "; it holds a LoRA adapter: use it with its base model (model.lora_configs) or merge it into it (trinity convert --adapter)"
}

func readSmall(path string) ([]byte, error) { return durable.ReadRegular(path, maxConfigSize) }

// ParseConfig reads the text of a config.json. Missing keys take transformers' defaults where those
// are safe to assume. An unsupported option and a value of the wrong type are errors.
func ParseConfig(text []byte) (*Config, error) {
	raw, err := decodeObject(text)
	if err != nil {
		return nil, err
	}
	o := &object{raw: raw}
	c := &Config{Architecture: o.text("model_type", ""), Raw: raw}
	fam, err := familyOf(c.Architecture)
	if err != nil {
		return nil, fmt.Errorf("model_type: %w", err)
	}
	c.readSizes(o, fam)
	c.readFlags(o, fam)
	c.readRope(o)
	c.readWindow(o, fam)
	if fam.experts {
		c.readMixture(o)
	}
	c.readHead(o, fam)
	c.BOS, c.EOS, c.PAD = o.tokens("bos_token_id"), o.tokens("eos_token_id"), o.tokens("pad_token_id")
	o.refuse(fam)
	if len(o.errs) == 0 {
		o.errs = append(o.errs, c.check())
	}
	return c, together(o.errs)
}

func (c *Config) readSizes(o *object, fam family) {
	c.HiddenSize = o.integer("hidden_size", 0)
	c.IntermediateSize = o.integer("intermediate_size", 0)
	c.NumLayers = o.integer("num_hidden_layers", 0)
	c.NumHeads = o.integer("num_attention_heads", 0)
	c.VocabSize = o.integer("vocab_size", 0)
	c.MaxPositions = o.integer("max_position_embeddings", fam.maxPositions)
	c.NumKVHeads = o.integer("num_key_value_heads", c.NumHeads)
	if _, given := o.raw["num_key_value_heads"]; !given && c.Architecture != "llama" {
		o.fail("num_key_value_heads is missing")
	}
	headDim := fam.headDim
	if headDim == 0 && c.NumHeads > 0 {
		headDim = c.HiddenSize / c.NumHeads
	}
	c.HeadDim = o.integer("head_dim", headDim)
	c.RMSNormEps = o.number("rms_norm_eps", 1e-6)
	c.InitializerRange = o.number("initializer_range", 0.02)
}

func (c *Config) readFlags(o *object, fam family) {
	c.TieEmbeddings = o.flag("tie_word_embeddings", false)
	c.AttentionBias = fam.attentionBias
	if fam.hasAttentionBias {
		c.AttentionBias = o.flag("attention_bias", false)
		c.AttentionOutputBias = c.AttentionBias
	}
	if fam.hasMLPBias {
		c.MLPBias = o.flag("mlp_bias", false)
	}
	c.QKNorm = fam.qkNorm
}

// readWindow follows transformers: mistral uses its window in every layer; qwen2 and qwen3 use it
// only if use_sliding_window is set, from layer max_window_layers on or in the layers of
// layer_types.
func (c *Config) readWindow(o *object, fam family) {
	if fam.slidingWindow == 0 {
		return
	}
	window := o.integer("sliding_window", fam.slidingWindow)
	if value, given := o.raw["sliding_window"]; given && value == nil {
		window = 0
	}
	if !fam.slidingEverywhere && !o.flag("use_sliding_window", false) {
		window = 0
	}
	if window == 0 || c.NumLayers < 1 || c.NumLayers > maxLayers {
		return
	}
	first := 0
	if !fam.slidingEverywhere {
		first = o.integer("max_window_layers", 28)
	}
	layers := make([]bool, c.NumLayers)
	for i := range layers {
		layers[i] = i >= first
	}
	if types, ok := o.raw["layer_types"].([]any); ok && !fam.slidingEverywhere {
		layers = o.layerTypes(types)
	}
	if slices.Contains(layers, true) {
		c.SlidingWindow, c.SlidingLayers = window, layers
	}
}

func (o *object) layerTypes(types []any) []bool {
	layers := make([]bool, len(types))
	for i, t := range types {
		if layers[i] = t == "sliding_attention"; !layers[i] && t != "full_attention" {
			o.fail("layer_types[%d] is %v; expected full_attention or sliding_attention", i, t)
			return nil
		}
	}
	return layers
}

// refuse reports the options that change a model's outputs and that this package does not support.
func (o *object) refuse(fam family) {
	if act := o.text("hidden_act", "silu"); act != "silu" {
		o.fail("hidden_act is %q; expected \"silu\"", act)
	}
	for _, key := range []string{"attention_dropout", "hidden_dropout", "resid_pdrop", "embd_pdrop"} {
		if p := o.number(key, 0); p != 0 {
			o.fail("%s is %v; only 0 is supported", key, p)
		}
	}
	if p := o.number("partial_rotary_factor", 1); p != 1 {
		o.fail("partial_rotary_factor is %v; only 1 is supported", p)
	}
	for _, key := range []string{"rope_interleaved", "use_mrope", "is_encoder_decoder"} {
		if o.flag(key, false) {
			o.fail("%s is not supported", key)
		}
	}
	if o.raw["quantization_config"] != nil {
		o.fail("quantization_config: quantised Hugging Face checkpoints are not supported; use the original checkpoint or a GGUF file")
	}
	if !fam.hasAttentionBias && !fam.attentionBias && o.flag("attention_bias", false) {
		o.fail("attention_bias is not an option of this architecture")
	}
}

// addGeneration puts generation_config.json's end-of-sequence tokens before config.json's.
func (c *Config) addGeneration(text []byte) error {
	raw, err := decodeObject(text)
	if err != nil {
		return err
	}
	o := &object{raw: raw}
	union := func(first, second []int32) []int32 {
		for _, token := range second {
			if !slices.Contains(first, token) {
				first = append(first, token)
			}
		}
		return first
	}
	c.EOS = union(o.tokens("eos_token_id"), c.EOS)
	if len(c.BOS) == 0 {
		c.BOS = o.tokens("bos_token_id")
	}
	if len(c.PAD) == 0 && c.Head == CausalLM { // classification reads config.json alone
		c.PAD = o.tokens("pad_token_id")
	}
	c.RawGeneration = raw
	return together(o.errs)
}

func decodeObject(text []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var raw map[string]any
	if err := decoder.Decode(&raw); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	if raw == nil {
		return nil, fmt.Errorf("not a JSON object")
	}
	if rest, _ := io.ReadAll(decoder.Buffered()); strings.TrimSpace(string(rest)) != "" {
		return nil, fmt.Errorf("text after the JSON object")
	}
	return raw, nil
}
