package model

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity/internal/model/gguf"
)

func openGGUF(path string) (*Model, error) {
	file, err := gguf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	cfg, vocabulary, err := readGGUFMetadata(file)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("model: %s: %w", path, err)
	}
	tensors := map[string]Tensor{}
	for _, name := range file.Names() {
		if slices.Contains(ropeTensors, name) {
			continue // part of the config
		}
		stored, _ := file.Tensor(name)
		t := fromGGUF(cfg, stored)
		tensors[t.Name] = t
	}
	m, err := newModel(cfg, path, "", tensors, file)
	if err != nil {
		return nil, err
	}
	m.vocabulary, m.gguf = vocabulary, file
	return m, nil
}

// modelNames are the names of the tensors outside the layers.
var modelNames = []struct{ gguf, huggingFace string }{
	{"token_embd.weight", embeddingName}, {"output_norm.weight", finalNormName}, {"output.weight", headName},
}

// layerNames maps GGUF's names below "blk.N." to Hugging Face's below "model.layers.N."; Norms.ggufNames has those of norms.
var layerNames = map[string]string{
	"attn_q":      "self_attn.q_proj",
	"attn_k":      "self_attn.k_proj",
	"attn_v":      "self_attn.v_proj",
	"attn_output": "self_attn.o_proj",
	"ffn_gate":    "mlp.gate_proj",
	"ffn_up":      "mlp.up_proj",
	"ffn_down":    "mlp.down_proj",
}

// ggufNames maps GGUF's names of a layer's norms to Hugging Face's, which differ between families.
func (n Norms) ggufNames() map[string]string {
	return map[string]string{
		"attn_norm": n.BeforeAttention, "post_attention_norm": n.AfterAttention, "ffn_norm": n.BeforeMLP, "post_ffw_norm": n.AfterMLP,
		"attn_q_norm": n.Q, "attn_k_norm": n.K,
	}
}

// huggingFaceName translates a GGUF tensor name. It returns an unknown name unchanged; checkTensors
// then reports it as unexpected.
func (c *Config) huggingFaceName(name string) string {
	for _, end := range modelNames {
		if name == end.gguf {
			return end.huggingFace
		}
	}
	parts := strings.Split(name, ".")
	if len(parts) != 4 || parts[0] != "blk" {
		return name
	}
	if _, err := strconv.Atoi(parts[1]); err != nil {
		return name
	}
	module := cmp.Or(families[c.Architecture].gguf.tensors[parts[2]], layerNames[parts[2]], c.Norms().ggufNames()[parts[2]])
	if module == "" {
		return name
	}
	return "model.layers." + parts[1] + "." + module + "." + parts[3]
}

// fromGGUF returns a tensor under its Hugging Face name. It undoes the reordering of llama's q and
// k rows, and takes from norms what they add, because llama.cpp has the sum.
func fromGGUF(cfg *Config, stored gguf.Tensor) Tensor {
	t := Tensor{Name: cfg.huggingFaceName(stored.Name), Shape: stored.Shape, DType: stored.Type.String()}
	rowLen := t.RowLen()
	t.read = func(dst []float32, from, _ int) error { return stored.Range(dst, from*rowLen) }
	if cfg.interleaved(t.Name) {
		t.read = unpermuted(t.read, cfg.HeadDim, rowLen)
	}
	if len(t.Shape) == 1 && strings.HasSuffix(t.Name, "norm.weight") {
		t.read = shifted(t.read, -cfg.NormOffset)
	}
	return t
}

// shifted adds offset to what read gives.
func shifted(read func([]float32, int, int) error, offset float32) func([]float32, int, int) error {
	if offset == 0 {
		return read
	}
	return func(dst []float32, from, to int) error {
		err := read(dst, from, to)
		for i := range dst {
			dst[i] += offset
		}
		return err
	}
}

// interleaved reports whether GGUF interleaves the rows of a tensor.
func (c *Config) interleaved(name string) bool {
	return families[c.Architecture].gguf.interleaved && (strings.Contains(name, ".q_proj.") || strings.Contains(name, ".k_proj."))
}

// unpermuted restores the half-split RoPE layout: GGUF llama files interleave each head's rows so
// that rotated pairs are neighbours; row j·half+i of a head is stored as row 2i+j.
func unpermuted(read func([]float32, int, int) error, headDim, rowLen int) func([]float32, int, int) error {
	half := headDim / 2
	return func(dst []float32, from, to int) error {
		for row := from; row < to; row++ {
			head, r := row/headDim*headDim, row%headDim
			stored := head + 2*(r%half) + r/half
			if err := read(dst[(row-from)*rowLen:][:rowLen], stored, stored+1); err != nil {
				return err
			}
		}
		return nil
	}
}
