// Command gen writes the assembly of the compute kernels, and the Go declarations and tables that
// go with it, into the current folder: one set each for AVX2, AVX-512 and NEON. The row and vector
// kernels are written once, in terms of the machine interface; the tiles of matrix products and the
// transposing packs per architecture.
package main

import (
	"fmt"
	"go/format"
	"os"
)

func main() {
	for name, content := range files() {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "gen:", err)
			os.Exit(1)
		}
	}
}

// files returns the generated files by name.
func files() map[string]string {
	avx2 := newSet("avx2", "amd64", &x86{lanes: 8, registers: 16, prefix: "Y"}, []int{0, 4, 2, 2, 1, 1, 1})
	avx2.vectorKernels()
	avx2.x86Tiles()
	avx2.x86Deals()
	avx2.x86Packs()

	avx512 := newSet("avx512", "amd64", &x86{lanes: 16, registers: 32, prefix: "Z"}, []int{0, 8, 8, 8, 4, 4, 4, 2, 2, 2, 2, 2, 2})
	avx512.vectorKernels()
	avx512.x86Tiles()
	avx512.x86Deals()
	avx512.borrow("transpose", "avx2")
	avx512.borrow("toBF16", "avx2")
	avx512.borrow("fromBF16", "avx2")

	neon := newSet("neon", "arm64", &arm{}, []int{0, 4, 2, 2, 1, 1, 1})
	neon.vectorKernels()
	neon.armTiles()
	neon.armPacks()

	out := map[string]string{}
	for _, s := range []*set{avx2, avx512, neon} {
		out[s.name+"_"+s.arch+".s"] = s.assembly()
		out[s.name+"_"+s.arch+".go"] = formatted(s.declarations())
	}
	for name, s := range int8Sets() {
		out[name+"_"+s.arch+".s"] = s.assembly()
		out[name+"_"+s.arch+".go"] = formatted(s.int8Declarations())
	}
	return out
}

func formatted(source string) string {
	out, err := format.Source([]byte(source))
	if err != nil {
		panic(err) // the declarations do not parse: a mistake in this program
	}
	return string(out)
}
