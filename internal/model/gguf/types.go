package gguf

import "fmt"

// Type is the storage type of a tensor, by its number in the file format.
type Type uint32

// The types that [Tensor.Range] converts to float32.
const (
	F32  Type = 0
	F16  Type = 1
	Q4_0 Type = 2
	Q4_1 Type = 3
	Q5_0 Type = 6
	Q5_1 Type = 7
	Q8_0 Type = 8
	Q4_K Type = 12
	Q5_K Type = 13
	Q6_K Type = 14
	BF16 Type = 30
)

// layout describes the storage of a type: blocks of elements.
type layout struct {
	name     string
	elements int // per block
	bytes    int // per block
	decode   func(dst []float32, block []byte)
	encode   func(block []byte, src []float32) // nil for types that this package does not write
}

var layouts = map[Type]layout{
	F32:  {"F32", 1, 4, nil, nil},
	F16:  {"F16", 1, 2, nil, nil},
	BF16: {"BF16", 1, 2, nil, nil},
	Q4_0: {"Q4_0", 32, 18, decodeQ4_0, nil},
	Q4_1: {"Q4_1", 32, 20, decodeQ4_1, encodeQ4_1},
	Q5_0: {"Q5_0", 32, 22, decodeQ5_0, nil},
	Q5_1: {"Q5_1", 32, 24, decodeQ5_1, nil},
	Q8_0: {"Q8_0", 32, 34, decodeQ8_0, encodeQ8_0},
	Q4_K: {"Q4_K", 256, 144, decodeQ4_K, nil},
	Q5_K: {"Q5_K", 256, 176, decodeQ5_K, nil},
	Q6_K: {"Q6_K", 256, 210, decodeQ6_K, nil},
}

// unsupported names the other types of the format, for error messages.
var unsupported = map[Type]string{
	9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
	20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64",
	29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}

// Block returns the number of elements of a block. Rows of a tensor hold whole blocks.
func (t Type) Block() int { return layouts[t].elements }

func (t Type) String() string {
	if l, ok := layouts[t]; ok {
		return l.name
	}
	if name, ok := unsupported[t]; ok {
		return name
	}
	return fmt.Sprintf("type %d", uint32(t))
}
