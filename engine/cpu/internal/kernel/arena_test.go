package kernel

import (
	"testing"
	"unsafe"
)

func TestArena(t *testing.T) {
	arena := NewArena()
	sizes := []int{1, 15, 1000, 6 << 20, 17, 3 << 20, 0}
	var arrays [][]float32
	for _, n := range sizes {
		v, err := arena.Float32(n)
		if err != nil {
			t.Fatal(err)
		}
		if len(v) != n || n > 0 && uintptr(unsafe.Pointer(&v[0]))%64 != 0 {
			t.Fatalf("array of %d: length %d, address %p", n, len(v), v)
		}
		arrays = append(arrays, v)
	}
	words, err := arena.Uint32(999)
	if err != nil || len(words) != 999 {
		t.Fatal(len(words), err)
	}
	bytes, err := arena.Uint8(77)
	if err != nil || len(bytes) != 77 || cap(bytes) != 77 {
		t.Fatal(len(bytes), cap(bytes), err)
	}
	for i, v := range arrays {
		for j := range v {
			if v[j] != 0 {
				t.Fatalf("array %d is not zeroed, or overlaps another", i)
			}
			v[j] = float32(i + 1)
		}
	}
	for i, v := range arrays {
		if len(v) > 0 && (v[0] != float32(i+1) || v[len(v)-1] != float32(i+1)) {
			t.Fatalf("array %d was overwritten", i)
		}
	}
	for _, storage := range []Storage{F32, BF16, Int8} {
		here, counted := NewArena(), NewTally()
		for _, a := range []*Arena{here, counted} {
			if _, err := NewPacked(a, 50, 130, storage); err != nil {
				t.Fatal(err)
			}
		}
		if here.Bytes() == 0 || counted.Bytes() != here.Bytes() {
			t.Errorf("storage %d: a tally counts %d bytes of an operand, the arena %d", storage, counted.Bytes(), here.Bytes())
		}
		if err := here.Free(); err != nil {
			t.Error(err)
		}
	}
	tally := NewTally()
	for _, n := range sizes {
		if v, err := tally.Float32(n); err != nil || v != nil {
			t.Errorf("a tally gave %d floats, %v", len(v), err)
		}
	}
	if v, err := tally.Uint8(77); err != nil || v != nil {
		t.Errorf("a tally gave %d bytes, %v", len(v), err)
	}
	if v, err := tally.Uint32(999); err != nil || v != nil {
		t.Errorf("a tally gave %d words, %v", len(v), err)
	}
	if tally.Bytes() != arena.Bytes() {
		t.Errorf("a tally counts %d bytes, the arena %d", tally.Bytes(), arena.Bytes())
	}
	Touch(nil, arrays[3])
	if arrays[3][1024] != 4 {
		t.Error("touching changed a value")
	}
	if arena.Bytes() < 4*9<<20 {
		t.Errorf("%d bytes", arena.Bytes())
	}
	if err := arena.Free(); err != nil || arena.Bytes() != 0 {
		t.Error(arena.Bytes(), err)
	}
}

func TestArenaRefuses(t *testing.T) {
	for _, n := range []int{-1, 1 << 60} {
		if _, err := NewArena().Float32(n); err == nil {
			t.Errorf("an array of %d", n)
		}
	}
}

func TestChoose(t *testing.T) {
	name := choose()
	if Active() != name {
		t.Errorf("chose %s, active is %s", name, Active())
	}
}
