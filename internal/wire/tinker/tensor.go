package tinker

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/trinity-go/trinity/internal/wire/protobuf"
)

// DType is the type of a tensor's elements.
type DType uint64

const (
	Float32  DType = 1
	Int64    DType = 2
	Int32    DType = 3
	BFloat16 DType = 4
)

var dtypes = map[DType]struct {
	name string
	size int // bytes of an element
}{Float32: {"float32", 4}, Int64: {"int64", 8}, Int32: {"int32", 4}, BFloat16: {"bfloat16", 2}}

func (d DType) String() string {
	if known, ok := dtypes[d]; ok {
		return known.name
	}
	return fmt.Sprintf("type %d", uint64(d))
}

// Tensor is an array of numbers, row by row, little-endian. Shape nil is one row of all elements.
type Tensor struct {
	DType DType
	Shape []int64
	Dense []byte
	CSR   *CSR // in place of Dense
}

// CSR are the elements of a matrix that are not 0: Values, the column of each, and where each row begins, and the last ends,
// among them. Rows and Columns are int64.
type CSR struct{ Values, Rows, Columns []byte }

// maxElements bounds what a sparse tensor becomes: 64 MiB.
const maxElements = 1 << 24

// Floats returns the elements as float32, row by row. Integers must be exact.
func (t *Tensor) Floats() ([]float32, error) {
	return elements(t, func(d DType, b []byte) (float32, error) {
		if d == Float32 {
			return math.Float32frombits(binary.LittleEndian.Uint32(b)), nil
		}
		if d == BFloat16 {
			return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16), nil
		}
		n := integer(d, b)
		if int64(float32(n)) != n {
			return 0, fmt.Errorf("%d is no float32", n)
		}
		return float32(n), nil
	})
}

// Tokens returns the elements as ids of tokens, row by row: integers of 32 bits.
func (t *Tensor) Tokens() ([]int32, error) {
	if t.DType != Int64 && t.DType != Int32 {
		return nil, fmt.Errorf("it is of %s: want int64", t.DType)
	}
	return elements(t, func(d DType, b []byte) (int32, error) {
		n := integer(d, b)
		if int64(int32(n)) != n {
			return 0, fmt.Errorf("%d is no token", n)
		}
		return int32(n), nil
	})
}

func integer(d DType, b []byte) int64 {
	if d == Int32 {
		return int64(int32(binary.LittleEndian.Uint32(b)))
	}
	return int64(binary.LittleEndian.Uint64(b))
}

// Columns returns K of a tensor [T,K], and 1 of one [T].
func (t *Tensor) Columns() (int, error) {
	switch {
	case len(t.Shape) <= 1:
		return 1, nil
	case len(t.Shape) == 2 && t.Shape[1] > 0 && t.Shape[1] <= maxElements:
		return int(t.Shape[1]), nil
	}
	return 0, fmt.Errorf("its shape is %v: want [tokens] or [tokens, targets]", t.Shape)
}

// elements returns the elements of a tensor.
func elements[T float32 | int32](t *Tensor, read func(DType, []byte) (T, error)) ([]T, error) {
	kind, ok := dtypes[t.DType]
	if !ok {
		return nil, fmt.Errorf("its elements are of %s: want float32 or int64", t.DType)
	}
	n, err := t.size(kind.size)
	if err != nil {
		return nil, err
	}
	out := make([]T, n)
	if t.CSR == nil {
		for i := range out {
			if out[i], err = read(t.DType, t.Dense[i*kind.size:]); err != nil {
				return nil, fmt.Errorf("element %d: %w", i, err)
			}
		}
		return out, nil
	}
	return out, t.CSR.each(int(t.Shape[0]), int(t.Shape[1]), kind.size, func(at int, value []byte) (err error) {
		out[at], err = read(t.DType, value)
		return err
	})
}

// size returns the number of elements, each of this many bytes.
func (t *Tensor) size(each int) (int, error) {
	n := int64(1)
	for _, d := range t.Shape {
		if d < 0 || d > maxElements || n*d > maxElements {
			return 0, fmt.Errorf("its shape is %v: want at most %d elements", t.Shape, maxElements)
		}
		n *= d
	}
	switch {
	case t.CSR != nil && len(t.Shape) != 2:
		return 0, fmt.Errorf("it is sparse, and its shape is %v: want two numbers", t.Shape)
	case t.CSR != nil:
		return int(n), nil
	case len(t.Dense)%each != 0:
		return 0, fmt.Errorf("it has %d bytes, and an element has %d", len(t.Dense), each)
	case t.Shape == nil:
		return len(t.Dense) / each, nil
	case int64(len(t.Dense)/each) != n:
		return 0, fmt.Errorf("its shape is %v, and it has %d elements", t.Shape, len(t.Dense)/each)
	}
	return int(n), nil
}

// each calls visit with the place, row by row, and the bytes of each value.
func (c *CSR) each(rows, columns, size int, visit func(at int, value []byte) error) error {
	values := len(c.Values) / size
	if len(c.Values)%size != 0 || len(c.Columns) != 8*values || len(c.Rows) != 8*(rows+1) {
		return fmt.Errorf("it is sparse, with %d rows, %d bytes of values, %d of columns and %d of rows: they do not fit together",
			rows, len(c.Values), len(c.Columns), len(c.Rows))
	}
	at := func(b []byte, i int) int64 { return int64(binary.LittleEndian.Uint64(b[8*i:])) }
	if at(c.Rows, 0) != 0 || at(c.Rows, rows) != int64(values) {
		return fmt.Errorf("its sparse rows begin at %d and end at %d: want 0 and %d", at(c.Rows, 0), at(c.Rows, rows), values)
	}
	for r := range rows {
		from, to := at(c.Rows, r), at(c.Rows, r+1)
		if from > to || to > int64(values) {
			return fmt.Errorf("its sparse row %d goes from %d to %d", r, from, to)
		}
		for i := int(from); i < int(to); i++ {
			column := at(c.Columns, i)
			if column < 0 || column >= int64(columns) {
				return fmt.Errorf("its sparse row %d has column %d, and there are %d", r, column, columns)
			}
			if err := visit(r*columns+int(column), c.Values[i*size:]); err != nil {
				return fmt.Errorf("row %d, column %d: %w", r, column, err)
			}
		}
	}
	return nil
}

func floats(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func tokens(v []int32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	return b
}

// NewFloats returns a tensor [T] of float32.
func NewFloats(v []float32) Tensor {
	return Tensor{DType: Float32, Shape: []int64{int64(len(v))}, Dense: floats(v)}
}

// NewTokens returns a tensor [T] of ids as int64, the type of target_tokens.
func NewTokens(v []int32) Tensor {
	b := make([]byte, 0, 8*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, uint64(int64(x)))
	}
	return Tensor{DType: Int64, Shape: []int64{int64(len(v))}, Dense: b}
}

func (t *Tensor) encode() []byte {
	var b []byte
	if t.CSR == nil {
		b = protobuf.AppendBytes(b, 1, t.Dense)
	} else {
		sparse := protobuf.AppendBytes(nil, 1, t.CSR.Values)
		sparse = protobuf.AppendBytes(sparse, 2, t.CSR.Rows)
		b = protobuf.AppendBytes(b, 2, protobuf.AppendBytes(sparse, 3, t.CSR.Columns))
	}
	b = protobuf.AppendVarint(b, 3, uint64(t.DType))
	return appendShape(b, 4, t.Shape)
}

func decodeTensor(f protobuf.Field) (t Tensor, err error) {
	err = f.Each(func(f protobuf.Field) (err error) {
		switch f.Number {
		case 1:
			t.Dense, err = f.Bytes()
		case 2:
			t.CSR = &CSR{}
			err = f.Each(func(f protobuf.Field) (err error) {
				switch f.Number {
				case 1:
					t.CSR.Values, err = f.Bytes()
				case 2:
					t.CSR.Rows, err = f.Bytes()
				case 3:
					t.CSR.Columns, err = f.Bytes()
				}
				return err
			})
		case 3:
			t.DType, err = enum[DType](f)
		case 4:
			t.Shape, err = decodeShape(t.Shape, f)
		}
		return err
	})
	return t, err
}
