// Package protobuf reads and writes messages field by field, so that a protocol needs no generated code.
package protobuf

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Number is the number of a field.
type Number = protowire.Number

// Field is a field of an encoded message.
type Field struct {
	Number Number
	kind   protowire.Type
	bits   uint64
	bytes  []byte
}

// Each calls visit with the fields of a message, in their order. It skips groups and fixed numbers of 32 bits.
func Each(message []byte, visit func(Field) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return fmt.Errorf("field %d: %w", number, protowire.ParseError(n))
		}
		f := Field{Number: number, kind: kind}
		switch kind {
		case protowire.VarintType:
			f.bits, _ = protowire.ConsumeVarint(message)
		case protowire.Fixed64Type:
			f.bits, _ = protowire.ConsumeFixed64(message)
		case protowire.BytesType:
			f.bytes, _ = protowire.ConsumeBytes(message)
		}
		message = message[n:]
		if kind == protowire.Fixed32Type || kind == protowire.StartGroupType {
			continue
		}
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

// Varint returns an integer, a bool or an enum.
func (f Field) Varint() (uint64, error) { return f.bits, f.want(protowire.VarintType, "an integer") }

// Double returns a number of 64 bits.
func (f Field) Double() (float64, error) {
	return math.Float64frombits(f.bits), f.want(protowire.Fixed64Type, "a double")
}

// Bytes returns bytes, a text or a message, as a part of the message that Each was called with.
func (f Field) Bytes() ([]byte, error) { return f.bytes, f.want(protowire.BytesType, "bytes") }

// Each calls visit with the fields of a field that is a message.
func (f Field) Each(visit func(Field) error) error {
	message, err := f.Bytes()
	if err != nil {
		return err
	}
	return Each(message, visit)
}

func (f Field) want(kind protowire.Type, name string) error {
	if f.kind != kind {
		return fmt.Errorf("field %d is not %s", f.Number, name)
	}
	return nil
}

// AppendVarint appends an integer, a bool or an enum.
func AppendVarint(b []byte, number Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), v)
}

// AppendDouble appends a number of 64 bits.
func AppendDouble(b []byte, number Number, v float64) []byte {
	return AppendFixed64(b, number, math.Float64bits(v))
}

// AppendFixed64 appends an integer of 64 bits.
func AppendFixed64(b []byte, number Number, v uint64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, number, protowire.Fixed64Type), v)
}

// AppendBytes appends bytes, a text or a message.
func AppendBytes[T ~string | ~[]byte](b []byte, number Number, v T) []byte {
	b = protowire.AppendVarint(protowire.AppendTag(b, number, protowire.BytesType), uint64(len(v)))
	return append(b, v...)
}
