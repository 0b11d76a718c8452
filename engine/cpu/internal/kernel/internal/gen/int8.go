package main

import (
	"fmt"
	"strings"
)

// Offsets in package kernel's int8Inputs and int8Weights, and their sizes.
const (
	inputOffset, inputQ, inputSize = 4, 8, 72
	weightQ, weightSize            = 64, 64 + 1024
	int8Quads                      = 16 // groups of four inputs in a block
)

// int8Sets are the files of the Int8 kernels, by name.
func int8Sets() map[string]*set {
	avx2 := newSet("avx2Int8", "amd64", &x86{lanes: 8, registers: 16, prefix: "Y"}, make([]int, 5))
	avx2.x86Int8()
	vnni := newSet("vnniInt8", "amd64", &x86{lanes: 16, registers: 32, prefix: "Z"}, make([]int, 13))
	vnni.vnniTiles()
	vnni.vnniQuantize()
	neon := newSet("neonInt8", "arm64", &arm{}, make([]int, 3))
	neon.armInt8Tiles(false)
	neon.armQuantize()
	dot := newSet("neonDotInt8", "arm64", &arm{}, make([]int, 5))
	dot.armInt8Tiles(true)
	dot.borrow("quantize", "neonInt8")
	return map[string]*set{"int8_avx2": avx2, "int8_vnni": vnni, "int8_neon": neon, "int8_neondot": dot}
}

func int8TileArgs() []arg {
	return []arg{{"blocks", "int"}, {"a", "*int8Inputs"}, {"ars", "int"}, {"b", "*int8Weights"}, {"c", "*float32"}, {"ldc", "int"}}
}

func quantizeArgs() []arg {
	return []arg{{"dst", "*int8Inputs"}, {"src", "*float32"}, {"limit", "float32"}, {"blocks", "int"}}
}

// int8Declarations is the text of an Int8 set's .go file.
func (s *set) int8Declarations() string {
	var b strings.Builder
	b.WriteString(header + "package kernel\n\n")
	fmt.Fprintf(&b, "var %s = int8Kernels{\n\trows: %d,\n\ttiles: [maxRows + 1]int8Tile{\n", s.name, len(s.panels)-1)
	for rows := 1; rows < len(s.panels); rows++ {
		fmt.Fprintf(&b, "\t\t%d: %sTile%d,\n", rows, s.name, rows)
	}
	b.WriteString("\t},\n")
	s.declareFunctions(&b)
	return b.String()
}
