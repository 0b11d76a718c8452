package gguf

import (
	"encoding/binary"
	"fmt"
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

// numbers decode the values of a type that has a fixed size.
type numbers struct {
	size uint64
	one  func(b []byte) any
	many func(b []byte, n int) any
}

func numbersOf[T any]() numbers {
	var zero T
	decode := func(b []byte, into any) { _, _ = binary.Decode(b, binary.LittleEndian, into) } // b is as long as needed
	return numbers{
		uint64(binary.Size(zero)),
		func(b []byte) any {
			var v T
			decode(b, &v)
			return v
		},
		func(b []byte, n int) any {
			list := make([]T, n)
			decode(b, list)
			return list
		},
	}
}

var numberTypes = map[uint32]numbers{
	typeU8: numbersOf[uint8](), typeI8: numbersOf[int8](), typeU16: numbersOf[uint16](), typeI16: numbersOf[int16](),
	typeU32: numbersOf[uint32](), typeI32: numbersOf[int32](), typeF32: numbersOf[float32](), typeBool: numbersOf[bool](),
	typeU64: numbersOf[uint64](), typeI64: numbersOf[int64](), typeF64: numbersOf[float64](),
}

func (r *reader) value(kind uint32, depth int) any {
	switch kind {
	case typeString:
		return r.str()
	case typeArray:
		return r.array(r.u32(), depth+1)
	}
	of, known := numberTypes[kind]
	if !known {
		r.fail("unknown value type %d", kind)
		return nil
	}
	if b := r.take(of.size); r.err == nil {
		return of.one(b)
	}
	return nil
}

func (r *reader) array(kind uint32, depth int) any {
	count := r.u64()
	switch kind {
	case typeString:
		list := make([]string, r.bounded(count, 8, "strings"))
		for i := range list {
			list[i] = r.str()
		}
		return list
	case typeArray:
		return r.nested(count, depth)
	}
	of, known := numberTypes[kind]
	if !known {
		r.fail("array of the unknown value type %d", kind)
		return nil
	}
	n := r.bounded(count, of.size, "array elements")
	if b := r.take(uint64(n) * of.size); r.err == nil {
		return of.many(b, n)
	}
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
