package kernel

import (
	"math"
	"strconv"
	"strings"
	"unsafe"
)

// lanesOf is how many lanes a vector register has by its name, 0 if it is none.
func lanesOf(op string) int {
	if _, err := strconv.Atoi(op[1:]); err != nil {
		return 0
	}
	return map[byte]int{'X': 4, 'Y': 8, 'Z': 16}[op[0]]
}

func registerOf(op string) int {
	n, _ := strconv.Atoi(op[1:])
	return n
}

// source is the operand that may lie in memory, of so many lanes; repeated is one element for all
// of them.
func (m *machine) source(op string, width int, repeated bool) func(s *state) vector {
	if lanesOf(op) > 0 {
		v := registerOf(op)
		return func(s *state) vector { return s.vectors[v] }
	}
	if name, ok := strings.CutSuffix(op, "<>(SB)"); ok {
		bits, known := m.constants[name]
		if !known {
			m.t.Fatalf("no constant %s", name)
		}
		return func(*state) (v vector) {
			for i := range v {
				v[i] = bits
			}
			return v
		}
	}
	if !repeated {
		at := m.address(op)
		return func(s *state) (v vector) {
			copy(v[:], unsafe.Slice((*uint32)(at(s).pointer()), width))
			return v
		}
	}
	element := func(s *state) uint32 { return 0 }
	if strings.HasSuffix(op, "(FP)") {
		slot, _ := m.integer(op)
		element = func(s *state) uint32 { return uint32(slot(s).n) }
	} else {
		at := m.address(op)
		element = func(s *state) uint32 { return *(*uint32)(at(s).pointer()) }
	}
	return func(s *state) (v vector) {
		x := element(s)
		for i := range v {
			v[i] = x
		}
		return v
	}
}

// vector returns a vector instruction: first moves, then instructions that do the same in every
// lane.
func (m *machine) vector(op string, a []string) func(s *state) {
	last := a[len(a)-1]
	width := lanesOf(last)
	d := registerOf(last)
	switch {
	case op == "VMOVSS" && strings.HasSuffix(last, "(FP)"):
		_, set := m.integer(last)
		return func(s *state) { set(s, number(int(s.vectors[registerOf(a[0])][0]))) }
	case op == "VMOVSS" || op == "VMOVUPS" && width == 0:
		n := 1
		if op == "VMOVUPS" {
			n = lanesOf(a[0])
		}
		at := m.address(last)
		return func(s *state) {
			copy(unsafe.Slice((*uint32)(at(s).pointer()), n), s.vectors[registerOf(a[0])][:])
		}
	case op == "VEXTRACTF64X4" || op == "VEXTRACTF128": // the upper half
		from := registerOf(a[1])
		return func(s *state) {
			var v vector
			copy(v[:], s.vectors[from][width:2*width])
			s.vectors[d] = v
		}
	case op == "VPMOVSDB": // to bytes, saturating
		from, at := registerOf(a[0]), m.address(last)
		return func(s *state) {
			for i, x := range s.vectors[from] {
				*(*int8)(unsafe.Add(at(s).pointer(), i)) = int8(min(max(int32(x), -128), 127))
			}
		}
	case op == "VBROADCASTSS" && lanesOf(a[0]) > 0:
		from := registerOf(a[0])
		return func(s *state) {
			x := s.vectors[from][0]
			for i := range s.vectors[d] {
				s.vectors[d][i] = x
			}
		}
	case op == "VPERMILPS":
		order, _ := strconv.ParseUint(a[0][1:], 0, 8)
		return func(s *state) {
			from := s.vectors[registerOf(a[1])]
			var v vector
			for i := range 4 {
				v[i] = from[order>>(2*i)&3]
			}
			s.vectors[d] = v
		}
	case op == "VCMPPS" && a[0] == "$5": // not less than
		x, y := m.source(a[1], lanes, false), m.source(a[2], lanes, false)
		return func(s *state) {
			limit, v := x(s), y(s)
			for i := range v {
				s.mask[i] = !(math.Float32frombits(v[i]) < math.Float32frombits(limit[i]))
			}
		}
	case op == "VMOVAPS.Z":
		from := registerOf(a[0])
		return func(s *state) {
			for i, keep := range s.mask {
				x := s.vectors[from][i]
				if !keep {
					x = 0
				}
				s.vectors[d][i] = x
			}
		}
	}
	return m.lanewise(op, a, d, width)
}

func (m *machine) lanewise(op string, a []string, d, width int) func(s *state) {
	name, repeated := strings.CutSuffix(op, ".BCST")
	immediate := uint64(0)
	if a[0][0] == '$' {
		immediate, _ = strconv.ParseUint(a[0][1:], 0, 8)
		a = a[1:]
	}
	f := lanewise[name]
	if f == nil || name == "VRNDSCALEPS" && immediate != 0 {
		return nil
	}
	x := m.source(a[0], width, repeated || strings.Contains(name, "BROADCAST"))
	y := x
	if len(a) == 3 {
		y = m.source(a[1], width, false)
	}
	return func(s *state) {
		var v vector
		first, second, before := x(s), y(s), s.vectors[d]
		for i := range width { // the lanes above become 0
			v[i] = f(first[i], second[i], before[i], int(immediate))
		}
		s.vectors[d] = v
	}
}

// floats makes a function of bits from one of numbers.
func floats(f func(x, y, d float32) float32) func(x, y, d uint32, _ int) uint32 {
	return func(x, y, d uint32, _ int) uint32 {
		return math.Float32bits(f(math.Float32frombits(x), math.Float32frombits(y), math.Float32frombits(d)))
	}
}

func same(x, _, _ uint32, _ int) uint32 { return x }

// lanewise maps an instruction to its result for a lane. x is the first operand, y the second (x if
// there is none), and d the old value of the destination.
var lanewise = map[string]func(x, y, d uint32, immediate int) uint32{
	"VMOVUPS": same, "VMOVAPS": same, "VMOVDQU32": same, "VBROADCASTSS": same, "VPBROADCASTD": same,
	"VXORPS":       func(x, y, _ uint32, _ int) uint32 { return x ^ y },
	"VPXORD":       func(x, y, _ uint32, _ int) uint32 { return x ^ y },
	"VPADDD":       func(x, y, _ uint32, _ int) uint32 { return x + y },
	"VPSUBD":       func(x, y, _ uint32, _ int) uint32 { return y - x },
	"VPMAXSD":      func(x, y, _ uint32, _ int) uint32 { return uint32(max(int32(x), int32(y))) },
	"VPANDD":       func(x, y, _ uint32, _ int) uint32 { return x & y },
	"VPSLLD":       func(x, _, _ uint32, by int) uint32 { return x << by },
	"VADDPS":       floats(func(x, y, _ float32) float32 { return y + x }),
	"VSUBPS":       floats(func(x, y, _ float32) float32 { return y - x }),
	"VMULPS":       floats(func(x, y, _ float32) float32 { return y * x }),
	"VDIVPS":       floats(func(x, y, _ float32) float32 { return y / x }),
	"VSQRTPS":      floats(func(x, _, _ float32) float32 { return float32(math.Sqrt(float64(x))) }),
	"VFMADD231PS":  floats(func(x, y, d float32) float32 { return fma32(y, x, d) }),
	"VFNMADD231PS": floats(func(x, y, d float32) float32 { return fma32(-y, x, d) }),
	"VFMADD213PS":  floats(func(x, y, d float32) float32 { return fma32(y, d, x) }),
	"VRNDSCALEPS":  floats(func(x, _, _ float32) float32 { return float32(math.RoundToEven(float64(x))) }),
	"VMAXPS": floats(func(x, y, _ float32) float32 {
		if y > x {
			return y
		}
		return x
	}),
	"VMINPS": floats(func(x, y, _ float32) float32 {
		if y < x {
			return y
		}
		return x
	}),
	"VCVTDQ2PS": func(x, _, _ uint32, _ int) uint32 { return math.Float32bits(float32(int32(x))) },
	"VCVTPS2DQ": func(x, _, _ uint32, _ int) uint32 {
		r := math.RoundToEven(float64(math.Float32frombits(x)))
		if !(r >= math.MinInt32 && r <= math.MaxInt32) {
			return 1 << 31
		}
		return uint32(int32(r))
	},
	"VPDPBUSD": func(x, y, d uint32, _ int) uint32 {
		for i := 0; i < 32; i += 8 {
			d += uint32(int32(y>>i&0xff) * int32(int8(x>>i)))
		}
		return d
	},
}
