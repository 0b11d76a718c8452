package kernel

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

// machine interprets the text of AVX-512 kernels, so that they are tested by processors that have
// none of their instructions.
type machine struct {
	t         *testing.T
	functions map[string][]instruction
	constants map[string]uint32 // that fill a vector
}

// instruction changes the state. It returns the number of instructions to advance, 0 to return.
type instruction func(s *state) int

// state is the registers and arguments of a call.
type state struct {
	general [16]place
	vectors [32]vector
	mask    [lanes]bool // K1
	zero    bool        // flag
	slots   map[string]place
}

type vector [lanes]uint32

// place is an integer, or an address: a pointer and a distance from it.
type place struct {
	base unsafe.Pointer
	n    int
}

func (p place) plus(q place) place {
	if p.base == nil {
		p.base = q.base
	}
	return place{p.base, p.n + q.n}
}

func (p place) times(n int) place { return place{p.base, p.n * n} }

func number(n int) place { return place{n: n} }

func address(p unsafe.Pointer) place { return place{base: p} }

func float(x float32) place { return place{n: int(math.Float32bits(x))} }

var (
	registerNames = strings.Fields("AX BX CX DX SI DI R8 R9 R10 R11 R12 R13 R14")
	memoryOperand = regexp.MustCompile(`^(-?\d*)\((\w+)\)(?:\((\w+)\*(\d)\))?$`)
	constantLine  = regexp.MustCompile(`^DATA (\w+)<>\+0\(SB\)/8, \$0x\w{8}(\w{8})$`)
	textLine      = regexp.MustCompile(`^TEXT ·(\w+)\(SB\)`)
)

// interpret reads files of assembly.
func interpret(t *testing.T, files ...string) *machine {
	m := &machine{t, map[string][]instruction{}, map[string]uint32{}}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, body := "", []string(nil)
		for line := range strings.Lines(string(text) + "TEXT ·(SB)\n") {
			line = strings.TrimSpace(line)
			if c := constantLine.FindStringSubmatch(line); c != nil {
				bits, _ := strconv.ParseUint(c[2], 16, 32)
				m.constants[c[1]] = uint32(bits)
			}
			if strings.HasPrefix(line, "TEXT ") {
				if name != "" {
					m.functions[name] = m.decode(body)
				}
				name, body = "", nil
				if f := textLine.FindStringSubmatch(line); f != nil {
					name = f[1]
				}
			} else if name != "" && line != "" && !strings.HasPrefix(line, "//") {
				body = append(body, line)
			}
		}
	}
	return m
}

// call runs a function and returns its result's bits.
func (m *machine) call(name string, slots map[string]place) uint32 {
	code := m.functions[name]
	if code == nil {
		m.t.Fatalf("no function %s", name)
	}
	s := &state{slots: slots}
	for i := range s.vectors { // code must not rely on old contents of registers
		for lane := range lanes {
			s.vectors[i][lane] = 0x7fc00001
		}
	}
	for at, by := 0, 1; by != 0; at += by {
		by = code[at](s)
	}
	return uint32(s.slots["ret"].n)
}

// decode turns lines into instructions.
func (m *machine) decode(lines []string) (code []instruction) {
	labels := map[string]int{}
	var kept []string
	for _, line := range lines {
		if label, ok := strings.CutSuffix(line, ":"); ok {
			labels[label] = len(kept)
		} else {
			kept = append(kept, line)
		}
	}
	for i, line := range kept {
		op, rest, _ := strings.Cut(line, " ")
		args := strings.Split(rest, ", ")
		jump := func(taken func(s *state) bool) instruction {
			by := labels[rest] - i
			return func(s *state) int {
				if taken(s) {
					return by
				}
				return 1
			}
		}
		switch op {
		case "RET":
			code = append(code, func(*state) int { return 0 })
		case "JMP":
			code = append(code, jump(func(*state) bool { return true }))
		case "JZ", "JEQ":
			code = append(code, jump(func(s *state) bool { return s.zero }))
		case "JNZ":
			code = append(code, jump(func(s *state) bool { return !s.zero }))
		default:
			do := m.scalar(op, args)
			if do == nil {
				do = m.vector(op, args)
			}
			if do == nil {
				m.t.Fatalf("instruction %s", line)
			}
			code = append(code, func(s *state) int { do(s); return 1 })
		}
	}
	return code
}

// integer is how to reach a general register, an argument or an immediate number.
func (m *machine) integer(op string) (get func(s *state) place, set func(s *state, v place)) {
	for i, name := range registerNames {
		if op == name {
			return func(s *state) place { return s.general[i] }, func(s *state, v place) { s.general[i] = v }
		}
	}
	if name, _, ok := strings.Cut(op, "+"); ok {
		return func(s *state) place { return s.slots[name] }, func(s *state, v place) { s.slots[name] = v }
	}
	n, err := strconv.Atoi(strings.TrimPrefix(op, "$"))
	if err != nil {
		m.t.Fatalf("operand %s", op)
	}
	return func(*state) place { return number(n) }, nil
}

// address is the address of a memory operand.
func (m *machine) address(op string) func(s *state) place {
	part := memoryOperand.FindStringSubmatch(op)
	if part == nil {
		m.t.Fatalf("operand %s", op)
	}
	offset, _ := strconv.Atoi(part[1])
	base, _ := m.integer(part[2])
	if part[3] == "" {
		return func(s *state) place { return base(s).plus(number(offset)) }
	}
	index, _ := m.integer(part[3])
	scale, _ := strconv.Atoi(part[4])
	return func(s *state) place { return base(s).plus(number(offset)).plus(index(s).times(scale)) }
}

func (p place) pointer() unsafe.Pointer { return unsafe.Add(p.base, p.n) }

// scalar is an instruction on integers, nil if it is none.
func (m *machine) scalar(op string, a []string) func(s *state) {
	switch op {
	case "PREFETCHT0", "PCALIGN", "VZEROUPPER":
		return func(*state) {}
	case "LEAQ":
		from := m.address(a[0])
		_, set := m.integer(a[1])
		return func(s *state) { set(s, from(s)) }
	case "MOVQ", "ADDQ", "SHRQ", "CMPQ", "TESTQ":
		x, _ := m.integer(a[0])
		y, set := m.integer(a[1])
		return map[string]func(s *state){
			"MOVQ":  func(s *state) { set(s, x(s)) },
			"ADDQ":  func(s *state) { set(s, y(s).plus(x(s))) },
			"SHRQ":  func(s *state) { set(s, number(y(s).n>>x(s).n)) },
			"CMPQ":  func(s *state) { s.zero = x(s).n == y(s).n },
			"TESTQ": func(s *state) { s.zero = x(s).n&y(s).n == 0 },
		}[op]
	case "DECQ":
		x, set := m.integer(a[0])
		return func(s *state) { set(s, x(s).plus(number(-1))); s.zero = x(s).n == 0 }
	}
	return nil
}
