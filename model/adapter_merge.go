package model

import (
	"maps"
	"strings"
)

// Merge returns m with the adapter merged into its weights: W + Scale·B·A. A classification head in
// the adapter replaces the model's head. A tied head that is adapted is no longer tied, and the
// embedding stays as it was. PEFT merges into both, and its merged model then computes something
// else than its adapter. Both models share the files: closing one closes the other.
func Merge(m *Model, adapter *Adapter) (*Model, error) {
	merged := *m
	merged.Config, merged.tensors = adapter.mergedConfig(m.Config), map[string]Tensor{}
	for _, spec := range merged.Config.Tensors() {
		t, err := mergedTensor(m, adapter, spec.Name)
		if err != nil {
			return nil, err
		}
		merged.tensors[spec.Name] = t
	}
	return &merged, nil
}

func (a *Adapter) mergedConfig(cfg *Config) *Config {
	if !cfg.TieEmbeddings || !a.adaptsHead(cfg) {
		return cfg
	}
	untied := *cfg
	untied.TieEmbeddings = false
	if cfg.Raw != nil {
		untied.Raw = maps.Clone(cfg.Raw)
		untied.Raw["tie_word_embeddings"] = false
	}
	return &untied
}

func mergedTensor(m *Model, adapter *Adapter, name string) (Tensor, error) {
	if own, err := adapter.Tensor(name); err == nil { // a head saved beside the adapters
		return own, nil
	}
	stored := name
	if name == headName && m.Config.TieEmbeddings {
		stored = embeddingName
	}
	w, err := m.Tensor(stored)
	if err != nil {
		return Tensor{}, err
	}
	module, first := updateOf(strings.TrimSuffix(name, ".weight"), w.Shape[0])
	at, err := adapter.Tensor(LoRATensor(module, "A"))
	if err != nil {
		return w, nil // a module that is not adapted
	}
	bt, err := adapter.Tensor(LoRATensor(module, "B"))
	if err != nil {
		return Tensor{}, err
	}
	scale := float32(adapter.Scale())
	return NewTensor(name, w.Shape, func(dst []float32, from, to int) error {
		a, b := make([]float32, at.Len()), make([]float32, (to-from)*bt.RowLen())
		if err := w.Rows(dst, from, to); err != nil {
			return err
		}
		if err := at.Float32(a); err != nil {
			return err
		}
		if err := bt.Rows(b, first+from, first+to); err != nil {
			return err
		}
		addProduct(dst, b, a, scale, to-from, bt.RowLen(), at.RowLen())
		return nil
	}), nil
}

// addProduct adds scale·(b·a) to dst [rows, in], rounding where PEFT does; b is [rows, rank], a
// [rank, in].
func addProduct(dst, b, a []float32, scale float32, rows, rank, in int) {
	update := make([]float32, in)
	for i := range rows {
		clear(update)
		for r := range rank {
			s := b[i*rank+r]
			for j, x := range a[r*in : (r+1)*in] {
				update[j] += s * x
			}
		}
		for j, u := range update {
			dst[i*in+j] += scale * u
		}
	}
}
