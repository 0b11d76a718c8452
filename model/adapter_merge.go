package model

import "strings"

// Merge returns model with the adapter merged into its weights: W + Scale·B·A. A head in the
// adapter replaces the model's head.
func Merge(model Source, adapter *Adapter) Source { return &merged{model, adapter} }

type merged struct {
	Source
	adapter *Adapter
}

// Tensor implements Source.
func (m *merged) Tensor(name string) (Tensor, error) {
	if own, err := m.adapter.Tensor(name); err == nil { // a head saved beside the adapters
		return own, nil
	}
	w, err := m.Source.Tensor(name)
	if err != nil {
		return Tensor{}, err
	}
	module := strings.TrimSuffix(name, ".weight")
	at, err := m.adapter.Tensor(LoRATensor(module, "A"))
	if err != nil {
		return w, nil // a module that is not adapted
	}
	bt, err := m.adapter.Tensor(LoRATensor(module, "B"))
	if err != nil {
		return Tensor{}, err
	}
	scale := float32(m.adapter.Scale())
	return NewTensor(name, w.Shape, func(dst []float32, from, to int) error {
		a, b := make([]float32, at.Len()), make([]float32, (to-from)*bt.RowLen())
		if err := w.Rows(dst, from, to); err != nil {
			return err
		}
		if err := at.Float32(a); err != nil {
			return err
		}
		if err := bt.Rows(b, from, to); err != nil {
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
