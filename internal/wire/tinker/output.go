package tinker

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/trinity-go/trinity/internal/wire/protobuf"
)

// Output is the result of a forward or a backward pass.
type Output struct {
	Type    string
	Records []Record
	Metrics []Metric // names have one colon: name:reduction
}

// Record holds fields of Data data.
type Record struct {
	Type   string
	Fields []Batched
	Data   int64
}

// Batched is a field of each datum of a record: Values of datum i go from byte Offsets[i] to byte Offsets[i+1].
type Batched struct {
	Name     string
	Values   []byte
	Offsets  []byte // int64 [data+1]
	DType    DType
	Trailing []int64 // shape of what is at each position; nil is a number
}

// Metric is a number with its name.
type Metric struct {
	Name  string
	Value float64
}

const arrayRecord = "ArrayRecord"

// NewOutput returns the result whose only field is a number at each position of each datum, or columns numbers
// if that is not 0. Neighbours with as many columns are a record.
func NewOutput(field string, data [][]float32, columns []int64, metrics []Metric) *Output {
	out := &Output{Type: arrayRecord, Metrics: metrics}
	for from := 0; from < len(data) || from == 0; {
		x, n := Batched{Name: field, Offsets: make([]byte, 8), DType: Float32}, from
		for ; n < len(data) && columns[n] == columns[from]; n++ {
			x.Values = append(x.Values, floats(data[n])...)
			x.Offsets = binary.LittleEndian.AppendUint64(x.Offsets, uint64(len(x.Values)))
		}
		if n > from && columns[from] > 0 {
			x.Trailing = []int64{columns[from]}
		}
		out.Records = append(out.Records, Record{arrayRecord, []Batched{x}, int64(n - from)})
		if from = n; n == len(data) {
			break
		}
	}
	return out
}

// Floats returns the values of a field of each datum. It is an error if a datum lacks it.
func (o *Output) Floats(field string) ([][]float32, error) {
	var all [][]float32
	for _, r := range o.Records {
		found := false
		for _, x := range r.Fields {
			if x.Name != field {
				continue
			}
			found = true
			if int64(len(x.Offsets)) != 8*(r.Data+1) {
				return nil, fmt.Errorf("%s has %d bytes of offsets for %d data", field, len(x.Offsets), r.Data)
			}
			for i := range int(r.Data) {
				from, to := binary.LittleEndian.Uint64(x.Offsets[8*i:]), binary.LittleEndian.Uint64(x.Offsets[8*i+8:])
				if from > to || to > uint64(len(x.Values)) {
					return nil, fmt.Errorf("%s of datum %d goes from byte %d to %d of %d", field, i, from, to, len(x.Values))
				}
				t := Tensor{DType: x.DType, Dense: x.Values[from:to]}
				values, err := t.Floats()
				if err != nil {
					return nil, fmt.Errorf("%s of datum %d: %w", field, i, err)
				}
				all = append(all, values)
			}
		}
		if !found && r.Data > 0 {
			return nil, fmt.Errorf("the result has no %s of %d data", field, r.Data)
		}
	}
	return all, nil
}

// Encode returns the result as a message.
func (o *Output) Encode() []byte {
	b := appendText(nil, 1, o.Type)
	for _, r := range o.Records {
		record := appendText(nil, 1, r.Type)
		for _, x := range r.Fields {
			of := appendFilled(appendFilled(nil, 1, x.Values), 2, x.Offsets)
			of = appendShape(appendInt(of, 3, int64(x.DType)), 4, x.Trailing)
			record = protobuf.AppendBytes(record, 2, protobuf.AppendBytes(protobuf.AppendBytes(nil, 1, x.Name), 2, of))
		}
		b = protobuf.AppendBytes(b, 2, appendInt(record, 3, r.Data))
	}
	for _, m := range o.Metrics {
		b = protobuf.AppendBytes(b, 3, protobuf.AppendDouble(protobuf.AppendBytes(nil, 1, m.Name), 2, m.Value))
	}
	return b
}

// DecodeOutput reads a result.
func DecodeOutput(message []byte) (*Output, error) {
	o := &Output{}
	return o, protobuf.Each(message, func(f protobuf.Field) (err error) {
		switch f.Number {
		case 1:
			o.Type, err = text(f)
		case 2:
			var r Record
			r, err = decodeRecord(f)
			o.Records = append(o.Records, r)
		case 3:
			m := Metric{Value: math.NaN()}
			m.Name, err = entry(f, func(f protobuf.Field) (err error) {
				m.Value, err = f.Double()
				return err
			})
			o.Metrics = append(o.Metrics, m)
		}
		return err
	})
}

func decodeRecord(f protobuf.Field) (r Record, err error) {
	err = f.Each(func(f protobuf.Field) (err error) {
		switch f.Number {
		case 1:
			r.Type, err = text(f)
		case 2:
			var x Batched
			x, err = decodeBatched(f)
			r.Fields = append(r.Fields, x)
		case 3:
			r.Data, err = enum[int64](f)
		}
		return err
	})
	return r, err
}

func decodeBatched(f protobuf.Field) (x Batched, err error) {
	x.Name, err = entry(f, func(f protobuf.Field) error {
		return f.Each(func(f protobuf.Field) (err error) {
			switch f.Number {
			case 1:
				x.Values, err = f.Bytes()
			case 2:
				x.Offsets, err = f.Bytes()
			case 3:
				x.DType, err = enum[DType](f)
			case 4:
				x.Trailing, err = decodeShape(x.Trailing, f)
			}
			return err
		})
	})
	return x, err
}
