package model

import (
	"bytes"
	"cmp"
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
	if err := c.Foreign.readTensors(dir, c); err != nil {
		return nil, fmt.Errorf("model: %s: %w", dir, err)
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
// are safe to assume. An option that no engine supports and a value of the wrong type are errors;
// Config.Foreign has what the embedded engine alone lacks.
func ParseConfig(text []byte) (*Config, error) {
	raw, err := decodeObject(text)
	if err != nil {
		return nil, err
	}
	raw, whole, err := textPart(raw)
	if err != nil {
		return nil, err
	}
	r := &configReader{object: object{raw: textOf(raw)}, c: &Config{Raw: raw, PartOf: whole}}
	c := r.c
	c.Architecture = r.text("model_type", "")
	f, err := familyOf(c.Architecture)
	if err != nil {
		return nil, fmt.Errorf("model_type: %w", err)
	}
	r.family = *f
	r.sizes()
	r.readLayerTypes()
	r.flags()
	if r.foreign {
		r.lacks("model_type %q", c.Architecture)
	} else {
		r.computed()
	}
	r.head()
	c.BOS, c.EOS, c.PAD = r.tokens("bos_token_id"), r.tokens("eos_token_id"), r.tokens("pad_token_id")
	r.refuse()
	if vision := readVision(r); r.beyond != nil {
		c.Foreign = &Foreign{Why: strings.Join(r.beyond, ", "), Vision: vision}
	}
	if len(r.errs) == 0 {
		return c, c.check()
	}
	return c, together(r.errs)
}

// configReader reads the keys of config.json into a Config.
type configReader struct {
	object
	family
	c          *Config
	layerTypes []string // [NumLayers]; nil if the file has none
	beyond     []string // see lacks
}

// computed reads what the embedded engine computes with.
func (r *configReader) computed() {
	r.rope()
	r.noRope()
	r.window()
	if r.experts {
		r.mixture()
	}
	key, want := "hidden_act", "silu"
	if r.variation.GELU {
		key, want = "hidden_activation", "gelu_pytorch_tanh"
	}
	if act := r.text(key, want); act != want {
		r.lacks("%s %q", key, act)
	}
	if r.family.read != nil {
		r.family.read(r)
	}
	for _, key := range []string{"rope_interleaved", "use_mrope"} {
		if r.flag(key, false) {
			r.lacks("%s", key)
		}
	}
	if !r.hasAttentionBias && !r.attentionBias && r.flag("attention_bias", false) {
		r.fail("attention_bias is not an option of this architecture")
	}
}

func (r *configReader) sizes() {
	c := r.c
	c.HiddenSize = r.integer("hidden_size", 0)
	c.IntermediateSize = r.integer("intermediate_size", 0)
	c.NumLayers = r.integer("num_hidden_layers", 0)
	c.NumHeads = r.integer("num_attention_heads", 0)
	c.VocabSize = r.integer("vocab_size", 0)
	c.MaxPositions = r.integer("max_position_embeddings", r.maxPositions)
	c.NumKVHeads = r.integer("num_key_value_heads", c.NumHeads)
	if _, given := r.raw["num_key_value_heads"]; !given && !r.kvHeadsOptional {
		r.fail("num_key_value_heads is missing")
	}
	headDim := r.headDim
	if headDim == 0 && c.NumHeads > 0 {
		headDim = c.HiddenSize / c.NumHeads
	}
	c.HeadDim = r.integer("head_dim", headDim)
	c.RMSNormEps = r.number("rms_norm_eps", cmp.Or(r.normEps, 1e-6))
	c.InitializerRange = r.number("initializer_range", 0.02)
}

func (r *configReader) flags() {
	c := r.c
	c.TieEmbeddings = r.flag("tie_word_embeddings", r.tied)
	c.AttentionBias, c.variation = r.attentionBias, r.variation
	if r.hasAttentionBias {
		c.AttentionBias = r.flag("attention_bias", false)
		c.AttentionOutputBias = c.AttentionBias
	}
	if r.hasMLPBias {
		c.MLPBias = r.flag("mlp_bias", false)
	}
}

// window follows transformers: mistral and phi3 use their window in every layer; qwen2 and qwen3 use it
// only if use_sliding_window is set, from layer max_window_layers on or in the layers of
// layer_types. Other families have a pattern if there are no layer_types.
func (r *configReader) window() {
	c := r.c
	if !r.hasWindow() {
		return
	}
	window := r.integer("sliding_window", r.slidingWindow)
	switch value, given := r.raw["sliding_window"]; {
	case given && value == nil:
		window = 0
	case !r.slidingEverywhere && r.slidingPattern == 0 && !r.flag("use_sliding_window", false):
		window = 0
	case given && window < 1:
		r.fail("sliding_window is %d; expected a positive number, or null for none", window)
	}
	if window == 0 || c.NumLayers < 1 || c.NumLayers > maxLayers {
		return
	}
	first := 0
	if !r.slidingEverywhere && r.slidingPattern == 0 {
		first = r.integer("max_window_layers", 28)
	}
	layers := make([]bool, c.NumLayers)
	for i := range layers {
		layers[i] = i >= first
	}
	if r.slidingPattern > 0 {
		pattern := r.integer("sliding_window_pattern", r.slidingPattern)
		if pattern < 1 {
			r.fail("sliding_window_pattern is %d; expected a positive number", pattern)
		}
		layers = slidingLayers(c.NumLayers, pattern)
	}
	if r.layerTypes != nil && !r.slidingEverywhere {
		layers = layersOf(r.layerTypes, "sliding_attention")
	}
	if slices.Contains(layers, true) {
		c.SlidingWindow, c.SlidingLayers = window, layers
	}
}

// slidingLayers returns n layers, of which each pattern-th has no window.
func slidingLayers(n, pattern int) []bool {
	layers := make([]bool, n)
	for i := range layers {
		layers[i] = (i+1)%max(pattern, 1) != 0
	}
	return layers
}

// readLayerTypes reads layer_types, which must name the type of each layer, and none that the family lacks.
func (r *configReader) readLayerTypes() {
	key := "layer_types"
	if r.raw[key] == nil && r.raw[olderLayerTypes] != nil {
		key = olderLayerTypes
	}
	types := read(&r.object, key, nil, "a list of names, one for each layer", func(value any) (types []string, ok bool) {
		list, ok := value.([]any)
		types = make([]string, len(list))
		for i, item := range list {
			name, isText := item.(string)
			ok, types[i] = ok && isText, name
		}
		return types, ok
	})
	if types != nil && len(types) != r.c.NumLayers {
		r.fail("%s has %d entries; expected %d (num_hidden_layers)", key, len(types), r.c.NumLayers)
		return
	}
	known := r.types
	if known == nil {
		known = usualTypes
	}
	for i, kind := range types {
		if !slices.Contains(known, kind) {
			r.fail("%s[%d] is %.100q; expected %s", key, i, kind, strings.Join(known, " or "))
			return
		}
	}
	r.layerTypes = types
}

// olderLayerTypes is the name of layer_types in older files of some families.
const olderLayerTypes = "layers_block_type"

// layersOf returns which of the layers with these types are of a kind.
func layersOf(types []string, kind string) []bool {
	layers := make([]bool, len(types))
	for i, t := range types {
		layers[i] = t == kind
	}
	return layers
}

// dropouts are the keys of dropout in training. Config.Notes tells that no engine has it.
var dropouts = []string{"attention_dropout", "hidden_dropout", "resid_pdrop", "embd_pdrop"}

// refuse reports the options that no engine supports.
func (r *configReader) refuse() {
	for _, key := range dropouts {
		if p := r.number(key, 0); !(p >= 0 && p < 1) {
			r.fail("%s is %v; expected a number of at least 0 and below 1", key, p)
		}
	}
	if r.flag("is_encoder_decoder", false) {
		r.fail("is_encoder_decoder is not supported")
	}
	if r.raw["quantization_config"] != nil {
		r.fail("quantization_config: quantised Hugging Face checkpoints are not supported; use the original checkpoint or a GGUF file")
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
