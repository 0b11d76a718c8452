package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// reader reads values from the front of the file. After the first error it returns zeros.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *reader) take(n uint64) []byte {
	if r.err == nil && n > uint64(len(r.rest)) {
		r.fail("needs %d more bytes but only %d are left: the file is truncated or damaged", n, len(r.rest))
	}
	if r.err != nil {
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) str() string { return string(r.take(r.u64())) }

// maxName is the longest name accepted, in bytes; the format's limit on keys.
const maxName = 1<<16 - 1

// name reads the name of a key or tensor. It must be printable text, because errors quote it.
func (r *reader) name(what string) string {
	name := r.str()
	unreadable := func(c rune) bool { return !unicode.IsPrint(c) }
	if r.err == nil && (len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, unreadable)) {
		r.fail("%s %.40q… is not text: the file is damaged", what, name)
	}
	return name
}

// bounded returns count if count items of at least size bytes can still follow. Otherwise it fails
// and returns 0.
func (r *reader) bounded(count, size uint64, what string) int {
	if r.err == nil && count > uint64(len(r.rest))/size {
		r.fail("%d %s do not fit into the %d bytes left: the file is truncated or damaged", count, what, len(r.rest))
	}
	if r.err != nil {
		return 0
	}
	return int(count)
}

// The value types of the format.
const (
	typeU8 = iota
	typeI8
	typeU16
	typeI16
	typeU32
	typeI32
	typeF32
	typeBool
	typeString
	typeArray
	typeU64
	typeI64
	typeF64
)

// maxDepth bounds arrays of arrays.
const maxDepth = 4

func (r *reader) value(kind uint32, depth int) any {
	switch kind {
	case typeU8:
		return one(r, 1, u8)
	case typeI8:
		return one(r, 1, i8)
	case typeU16:
		return one(r, 2, binary.LittleEndian.Uint16)
	case typeI16:
		return one(r, 2, i16)
	case typeU32:
		return one(r, 4, binary.LittleEndian.Uint32)
	case typeI32:
		return one(r, 4, i32)
	case typeF32:
		return one(r, 4, f32)
	case typeBool:
		return one(r, 1, boolean)
	case typeString:
		return r.str()
	case typeArray:
		return r.array(r.u32(), depth+1)
	case typeU64:
		return one(r, 8, binary.LittleEndian.Uint64)
	case typeI64:
		return one(r, 8, i64)
	case typeF64:
		return one(r, 8, f64)
	}
	r.fail("unknown value type %d", kind)
	return nil
}

func (r *reader) array(kind uint32, depth int) any {
	count := r.u64()
	switch kind {
	case typeU8:
		return many(r, count, 1, u8)
	case typeI8:
		return many(r, count, 1, i8)
	case typeU16:
		return many(r, count, 2, binary.LittleEndian.Uint16)
	case typeI16:
		return many(r, count, 2, i16)
	case typeU32:
		return many(r, count, 4, binary.LittleEndian.Uint32)
	case typeI32:
		return many(r, count, 4, i32)
	case typeF32:
		return many(r, count, 4, f32)
	case typeBool:
		return many(r, count, 1, boolean)
	case typeU64:
		return many(r, count, 8, binary.LittleEndian.Uint64)
	case typeI64:
		return many(r, count, 8, i64)
	case typeF64:
		return many(r, count, 8, f64)
	case typeString:
		list := make([]string, r.bounded(count, 8, "strings"))
		for i := range list {
			list[i] = r.str()
		}
		return list
	case typeArray:
		return r.nested(count, depth)
	}
	r.fail("array of the unknown value type %d", kind)
	return nil
}

func (r *reader) nested(count uint64, depth int) any {
	if depth > maxDepth {
		r.fail("arrays are nested more than %d deep", maxDepth)
		return nil
	}
	list := make([]any, r.bounded(count, 12, "arrays"))
	for i := range list {
		if list[i] = r.array(r.u32(), depth+1); r.err != nil {
			return nil
		}
	}
	return list
}

func one[T any](r *reader, size uint64, decode func([]byte) T) T {
	b := r.take(size)
	if b == nil {
		var zero T
		return zero
	}
	return decode(b)
}

func many[T any](r *reader, count, size uint64, decode func([]byte) T) []T {
	list := make([]T, r.bounded(count, size, "array elements"))
	b := r.take(uint64(len(list)) * size)
	if r.err != nil {
		return nil
	}
	for i := range list {
		list[i] = decode(b[uint64(i)*size:])
	}
	return list
}

func u8(b []byte) uint8     { return b[0] }
func i8(b []byte) int8      { return int8(b[0]) }
func boolean(b []byte) bool { return b[0] != 0 }
func i16(b []byte) int16    { return int16(binary.LittleEndian.Uint16(b)) }
func i32(b []byte) int32    { return int32(binary.LittleEndian.Uint32(b)) }
func i64(b []byte) int64    { return int64(binary.LittleEndian.Uint64(b)) }
func f32(b []byte) float32  { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }
func f64(b []byte) float64  { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }
