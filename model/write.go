package model

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/model/safetensors"
)

// WriteDir writes a Hugging Face directory that transformers loads: config.json (Config.Raw, if
// set, with only the dtype changed), generation_config.json and model.safetensors. dtype is "f32"
// or "bf16", which rounds to nearest even. Each file appears whole or not at all; to make the whole
// directory appear at once, write to a temporary one and rename it. The caller adds the
// tokenizer's files: see tokenizer.Tokenizer.WriteFiles.
func WriteDir(dir string, cfg *Config, source Source, dtype string) error {
	kinds := map[string]safetensors.DType{"f32": safetensors.F32, "bf16": safetensors.BF16}
	kind, ok := kinds[dtype]
	if !ok {
		return fmt.Errorf("model: dtype %q; expected f32 or bf16", dtype)
	}
	if err := cfg.check(); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	tensors, err := collect(source, cfg)
	if err != nil {
		return err
	}
	if err := safetensors.Write(filepath.Join(dir, safetensors.SingleName), entriesOf(tensors, kind, ""), nil); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	if err := writeJSON(filepath.Join(dir, generationName), cfg.generationJSON()); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, configName), cfg.json(map[string]string{"f32": "float32", "bf16": "bfloat16"}[dtype]))
}

// entriesOf returns tensors as entries of a file, whose names begin with a prefix.
func entriesOf(tensors map[string]Tensor, dtype safetensors.DType, prefix string) (entries []safetensors.Entry) {
	for name, t := range tensors {
		entries = append(entries, safetensors.Entry{Name: prefix + name, DType: dtype, Shape: t.Shape, Write: func(w io.Writer) error {
			return encodeRows(w, t, func(w io.Writer, numbers []float32) error { return safetensors.Encode(w, dtype, numbers) })
		}})
	}
	return entries
}

// collect returns the tensors of a source, which must be those of a model.
func collect(source Source, cfg *Config) (map[string]Tensor, error) {
	tensors, err := collectAll(source)
	if err == nil {
		if err = checkTensors(cfg, tensors); err != nil {
			err = fmt.Errorf("model: cannot write the weights: %w", err)
		}
	}
	return tensors, err
}

func collectAll(source Source) (map[string]Tensor, error) {
	tensors := map[string]Tensor{}
	for _, name := range source.Names() {
		t, err := source.Tensor(name)
		if err != nil {
			return nil, err
		}
		tensors[name] = t
	}
	return tensors, nil
}

// encodeRows writes a tensor by encode, a few rows at a time.
func encodeRows(w io.Writer, t Tensor, encode func(io.Writer, []float32) error) error {
	rowLen := max(t.RowLen(), 1)
	rows := t.Len() / rowLen
	step := max(1, (1<<18)/rowLen)
	buffer := make([]float32, min(step, rows)*rowLen)
	for from := 0; from < rows; from += step {
		to := min(from+step, rows)
		chunk := buffer[:(to-from)*rowLen]
		if err := t.Rows(chunk, from, to); err != nil {
			return err
		}
		if err := encode(w, chunk); err != nil {
			return err
		}
	}
	return nil
}

// json returns config.json: as read, or made from the fields if the model has another source.
func (c *Config) json(dtype string) map[string]any {
	raw := maps.Clone(c.Raw)
	if raw == nil {
		raw = c.synthesised()
	}
	c.headJSON(raw)
	_, newer := raw["dtype"]
	_, older := raw["torch_dtype"]
	if newer {
		raw["dtype"] = dtype
	}
	if older || !newer {
		raw["torch_dtype"] = dtype
	}
	return raw
}

func (c *Config) synthesised() map[string]any {
	fam := families[c.Architecture]
	raw := map[string]any{
		"model_type": c.Architecture, "hidden_act": "silu",
		"hidden_size": c.HiddenSize, "intermediate_size": c.IntermediateSize, "num_hidden_layers": c.NumLayers,
		"num_attention_heads": c.NumHeads, "num_key_value_heads": c.NumKVHeads, "head_dim": c.HeadDim,
		"vocab_size": c.VocabSize, "max_position_embeddings": c.MaxPositions,
		"rms_norm_eps": c.RMSNormEps, "rope_theta": c.RopeTheta, "tie_word_embeddings": c.TieEmbeddings,
		"initializer_range": c.InitializerRange, "attention_dropout": 0.0, "use_cache": true,
		"bos_token_id": oneOrMany(c.BOS), "eos_token_id": oneOrMany(c.EOS), "pad_token_id": oneOrMany(c.PAD),
	}
	if fam.hasAttentionBias {
		raw["attention_bias"] = c.AttentionBias
	}
	if fam.hasMLPBias {
		raw["mlp_bias"] = c.MLPBias
	}
	if c.RopeScaling != nil {
		raw["rope_scaling"] = c.RopeScaling.json()
	}
	if fam.rotation.partial {
		raw["partial_rotary_factor"] = float64(c.rotated()) / float64(c.HeadDim)
	}
	if fam.rotation.long && c.RopeScaling != nil { // transformers reads it here alone
		raw["original_max_position_embeddings"] = c.RopeScaling.OriginalMaxPositions
	}
	if fam.noRopeEvery > 0 {
		layers := make([]int, c.NumLayers)
		for i := range layers {
			layers[i] = map[bool]int{true: 1}[c.Rotates(i)]
		}
		raw["no_rope_layers"], raw["no_rope_layer_interval"] = layers, fam.noRopeEvery
	}
	if fam.experts {
		maps.Copy(raw, c.Mixture.json())
	}
	if fam.write != nil {
		fam.write(c, raw)
	}
	if !fam.hasWindow() {
		return raw
	}
	raw["sliding_window"] = nil
	if !fam.slidingEverywhere && fam.slidingPattern == 0 {
		raw["use_sliding_window"] = c.SlidingWindow > 0
	}
	if c.SlidingWindow > 0 {
		raw["sliding_window"] = c.SlidingWindow
		types := make([]string, c.NumLayers)
		for i, sliding := range c.SlidingLayers {
			types[i] = map[bool]string{true: "sliding_attention", false: "full_attention"}[sliding]
		}
		if !fam.slidingEverywhere {
			raw["layer_types"] = types
		}
	}
	return raw
}

func (s *RopeScaling) json() map[string]any {
	raw := map[string]any{"rope_type": s.Type, "factor": s.Factor}
	switch s.Type {
	case "llama3":
		raw["low_freq_factor"], raw["high_freq_factor"] = s.LowFreqFactor, s.HighFreqFactor
		raw["original_max_position_embeddings"] = s.OriginalMaxPositions
	case "longrope":
		raw["original_max_position_embeddings"] = s.OriginalMaxPositions
		raw["short_factor"], raw["long_factor"] = s.ShortFactors, s.LongFactors
		if s.AttentionFactor != 0 {
			raw["attention_factor"] = s.AttentionFactor
		}
	case "yarn":
		raw["original_max_position_embeddings"] = s.OriginalMaxPositions
		raw["beta_fast"], raw["beta_slow"], raw["truncate"] = s.BetaFast, s.BetaSlow, !s.KeepFraction
		for key, value := range map[string]float64{"attention_factor": s.AttentionFactor, "mscale": s.MScale, "mscale_all_dim": s.MScaleAllDim} {
			if value != 0 {
				raw[key] = value
			}
		}
		if s.QueryBeta != 0 {
			raw["llama_4_scaling_beta"] = s.QueryBeta
		}
	}
	return raw
}

// generationJSON returns generation_config.json: as read, or the special tokens.
func (c *Config) generationJSON() map[string]any {
	if c.RawGeneration != nil {
		return c.RawGeneration
	}
	raw := map[string]any{"_from_model_config": true}
	for key, tokens := range map[string][]int32{"bos_token_id": c.BOS, "eos_token_id": c.EOS, "pad_token_id": c.PAD} {
		if len(tokens) > 0 {
			raw[key] = oneOrMany(tokens)
		}
	}
	return raw
}

// oneOrMany returns token ids in the form that transformers writes: null, a number or a list.
func oneOrMany(tokens []int32) any {
	switch len(tokens) {
	case 0:
		return nil
	case 1:
		return tokens[0]
	}
	return tokens
}

func writeJSON(path string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("model: %s: %w", path, err)
	}
	if err := durable.WriteFile(path, append(text, '\n')); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	return nil
}
