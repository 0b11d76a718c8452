package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// interpreter runs the few instructions that VNNI tiles are made of, for machines that have none of them. Registers and memory are bytes.
type interpreter struct {
	t       *testing.T
	args    map[string]int
	regs    map[string]int
	vectors map[string]*[64]byte
	memory  []byte
	zero    bool // the last counter reached 0
}

var operand = regexp.MustCompile(`^(-?\d*)\((\w+)\)(?:\((\w+)\*(\d)\))?$`)

func (m *interpreter) address(op string) int {
	part := operand.FindStringSubmatch(op)
	if part == nil {
		m.t.Fatalf("operand %s", op)
	}
	offset, _ := strconv.Atoi(part[1])
	scale, _ := strconv.Atoi(part[4])
	return offset + m.regs[part[2]] + scale*m.regs[part[3]]
}

// value is 64 bytes of a register or of memory; with repeat, four bytes of memory again and again.
func (m *interpreter) value(op string, repeat bool) (v [64]byte) {
	if op[0] == 'Z' {
		return *m.vectors[op]
	}
	at := m.address(op)
	for i := range v {
		if repeat {
			v[i] = m.memory[at+i%4]
		} else {
			v[i] = m.memory[at+i]
		}
	}
	return v
}

// lanes32 writes f of each 32-bit lane to register d.
func (m *interpreter) lanes32(d string, f func(at int) uint32) {
	var v [64]byte
	for i := 0; i < 64; i += 4 {
		binary.LittleEndian.PutUint32(v[i:], f(i))
	}
	m.vectors[d] = &v
}

func word(v [64]byte, at int) uint32 { return binary.LittleEndian.Uint32(v[at:]) }

func number(v [64]byte, at int) float32 { return math.Float32frombits(word(v, at)) }

func (m *interpreter) scalar(op string, a []string) {
	switch op {
	case "MOVQ":
		name, _, _ := strings.Cut(a[0], "+")
		m.regs[a[1]] = m.args[name]
	case "LEAQ":
		m.regs[a[1]] = m.address(a[0])
	case "ADDQ":
		n, isReg := m.regs[a[0]]
		if !isReg {
			n, _ = strconv.Atoi(a[0][1:])
		}
		m.regs[a[1]] += n
	case "DECQ":
		m.regs[a[0]]--
		m.zero = m.regs[a[0]] == 0
	case "PREFETCHT0", "PCALIGN", "VZEROUPPER":
	default:
		m.vector(op, a)
	}
}

func (m *interpreter) vector(op string, a []string) {
	if op == "VMOVUPS" && a[0][0] == 'Z' {
		copy(m.memory[m.address(a[1]):], m.vectors[a[0]][:])
		return
	}
	d := a[len(a)-1]
	x := m.value(a[0], strings.HasSuffix(op, ".BCST") || op == "VPBROADCASTD")
	var y [64]byte
	if len(a) == 3 && m.vectors[a[1]] != nil {
		y = *m.vectors[a[1]]
	}
	f := map[string]func(at int) uint32{
		"VPBROADCASTD": func(at int) uint32 { return word(x, at) },
		"VMOVDQU32":    func(at int) uint32 { return word(x, at) },
		"VMOVUPS":      func(at int) uint32 { return word(x, at) },
		"VPXORD":       func(at int) uint32 { return word(x, at) ^ word(y, at) },
		"VPADDD":       func(at int) uint32 { return word(x, at) + word(y, at) },
		"VCVTDQ2PS":    func(at int) uint32 { return math.Float32bits(float32(int32(word(x, at)))) },
		"VMULPS.BCST":  func(at int) uint32 { return math.Float32bits(number(x, at) * number(y, at)) },
		"VFMADD231PS": func(at int) uint32 {
			return math.Float32bits(float32(math.FMA(float64(number(x, at)), float64(number(y, at)), float64(number(m.register(d), at)))))
		},
		"VPDPBUSD.BCST": func(at int) uint32 {
			sum := int32(word(m.register(d), at))
			for i := range 4 {
				sum += int32(y[at+i]) * int32(int8(x[at+i]))
			}
			return uint32(sum)
		},
	}[op]
	if f == nil {
		m.t.Fatalf("instruction %s", op)
	}
	m.lanes32(d, f)
}

// register is what d holds before the instruction.
func (m *interpreter) register(d string) [64]byte { return *m.vectors[d] }

// run interprets a function until it returns.
func (m *interpreter) run(f *function) {
	lines := strings.Split(f.body.String(), "\n")
	labels := map[string]int{}
	for i, l := range lines {
		if name, ok := strings.CutSuffix(l, ":"); ok {
			labels[name] = i
		}
	}
	for i := 0; ; i++ {
		op, rest, _ := strings.Cut(strings.TrimSpace(lines[i]), " ")
		switch {
		case op == "RET":
			return
		case strings.HasSuffix(op, ":"):
		case op == "JNZ":
			if !m.zero {
				i = labels[rest]
			}
		default:
			m.scalar(op, strings.Split(rest, ", "))
		}
	}
}

// TestVNNITiles interprets every tile and compares with the definition. Scales are powers of two, so that all numbers are exact.
func TestVNNITiles(t *testing.T) {
	const blocks, ldc = 3, 96
	const stride = blocks*inputSize + 8
	r := rand.New(rand.NewPCG(1, 2))
	for _, f := range int8Sets()["int8_vnni"].functions {
		t.Run(f.name, func(t *testing.T) {
			var rows int
			if _, err := fmt.Sscanf(f.name, "vnniInt8Tile%d", &rows); err != nil {
				t.Fatal(err)
			}
			a, b := 256, 256+rows*stride
			c := b + blocks*weightSize
			m := &interpreter{t: t, regs: map[string]int{}, vectors: map[string]*[64]byte{}, memory: make([]byte, c+rows*ldc+64),
				args: map[string]int{"blocks": blocks, "a": a, "ars": stride, "b": b, "c": c, "ldc": ldc}}
			for v := range 32 {
				m.vectors[fmt.Sprint("Z", v)] = &[64]byte{}
			}
			float := func(at int, v float32) { binary.LittleEndian.PutUint32(m.memory[at:], math.Float32bits(v)) }
			want := make([]float32, rows*16)
			for n := range blocks {
				w, scales := [16][64]int{}, [16]float32{}
				for j := range 16 {
					scales[j] = float32(int(1) << r.IntN(3))
					float(b+n*weightSize+4*j, scales[j])
					for k := range 64 {
						w[j][k] = r.IntN(127) - 63
						m.memory[b+n*weightSize+weightQ+k/4*64+4*j+k%4] = byte(w[j][k] + 64)
					}
				}
				for i := range rows {
					at, scale, offset := a+i*stride+n*inputSize, float32(int(1)<<r.IntN(2)), 0
					float(at, scale)
					var sums [16]int
					for k := range 64 {
						q := r.IntN(255) - 127
						m.memory[at+inputQ+k] = byte(q)
						offset -= 64 * q
						for j := range 16 {
							sums[j] += q * w[j][k]
						}
					}
					binary.LittleEndian.PutUint32(m.memory[at+inputOffset:], uint32(int32(offset)))
					for j := range 16 {
						want[16*i+j] += float32(sums[j]) * scale * scales[j]
					}
				}
			}
			m.run(f)
			for i, v := range want {
				if got := math.Float32frombits(binary.LittleEndian.Uint32(m.memory[c+i/16*ldc+i%16*4:])); got != v {
					t.Fatalf("element (%d, %d): %v, want %v", i/16, i%16, got, v)
				}
			}
		})
	}
}
