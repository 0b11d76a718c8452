package tinker

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// PromptTargets are ids [P-1, K] of tokens in JSON, whose log-probabilities at the tokens of a prompt after the first are
// wanted; -1 wants nothing. Rows and Columns are those of sparse ids, of which only Data want something.
type PromptTargets struct {
	Data    []int64 `json:"data"`
	DType   string  `json:"dtype"`
	Shape   []int64 `json:"shape,omitempty"`
	Rows    []int64 `json:"sparse_crow_indices,omitempty"`
	Columns []int64 `json:"sparse_col_indices,omitempty"`
}

// tensor returns the ids as a tensor.
func (t *PromptTargets) tensor() *Tensor {
	out := &Tensor{DType: Int64, Shape: t.Shape}
	if t.Rows == nil && t.Columns == nil {
		out.Dense = long(t.Data)
		return out
	}
	out.CSR = &CSR{Values: long(t.Data), Rows: long(t.Rows), Columns: long(t.Columns)}
	return out
}

func long(v []int64) []byte {
	b := make([]byte, 0, 8*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, uint64(x))
	}
	return b
}

// IDs returns the ids [places·K], row by row, and the first row that has one. Each is below vocab, or -1.
func (t *PromptTargets) IDs(places, vocab int) (ids []int32, first int, err error) {
	if t.DType != "int64" {
		return nil, 0, fmt.Errorf("it is of %.40q: want int64", t.DType)
	}
	if len(t.Shape) != 2 || t.Shape[0] != int64(places) || t.Shape[1] < 1 {
		return nil, 0, fmt.Errorf("its shape is %v: want [%d, targets], a row for each token of the prompt but the first", t.Shape, places)
	}
	tensor := t.tensor()
	n, err := tensor.size(8)
	if err != nil {
		return nil, 0, err
	}
	ids, first = make([]int32, n), -1
	for i := range ids {
		ids[i] = -1
	}
	columns := int(t.Shape[1])
	set := func(at int, id int64) error {
		if id < -1 || id >= int64(vocab) {
			return fmt.Errorf("token %d: want 0 to %d, or -1 for none", id, vocab-1)
		}
		if ids[at] = int32(id); id >= 0 && (first < 0 || at/columns < first) {
			first = at / columns
		}
		return nil
	}
	if tensor.CSR != nil {
		err = tensor.CSR.each(places, columns, 8, func(at int, value []byte) error { return set(at, integer(Int64, value)) })
	} else {
		for at, id := range t.Data {
			if err = set(at, id); err != nil {
				err = fmt.Errorf("row %d, column %d: %w", at/columns, at%columns, err)
				break
			}
		}
	}
	if err == nil && first < 0 {
		err = errors.New("it names no token")
	}
	return ids, first, err
}

// Answer returns the log-probabilities of IDs in the layout of the ids, 0 where there is none.
func (t *PromptTargets) Answer(logprobs []float32) *Tensor {
	of := t.tensor()
	values := make([]float32, 0, len(t.Data))
	add := func(at int) {
		value := logprobs[at]
		if value != value {
			value = 0
		}
		values = append(values, value)
	}
	if of.CSR == nil {
		for at := range t.Data {
			add(at)
		}
		return &Tensor{DType: Float32, Shape: t.Shape, Dense: floats(values)}
	}
	_ = of.CSR.each(int(t.Shape[0]), int(t.Shape[1]), 8, func(at int, _ []byte) error { // IDs has read them
		add(at)
		return nil
	})
	return &Tensor{DType: Float32, Shape: t.Shape, CSR: &CSR{Values: floats(values), Rows: of.CSR.Rows, Columns: of.CSR.Columns}}
}
