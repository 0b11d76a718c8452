package kernel

import (
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"testing"
)

// Touched memory is resident, with the bits that it had.
func TestTouchBringsPagesIn(t *testing.T) {
	arena := NewArena()
	defer arena.Free()
	const n = 16 << 20
	v, err := arena.Float32(n)
	if err != nil {
		t.Fatal(err)
	}
	debug.FreeOSMemory() // else what earlier tests have freed may go meanwhile
	before := resident(t)
	v[0] = float32(math.Copysign(0, -1))
	pool := NewPool(2)
	defer pool.Close()
	Touch(pool, v)
	if grown := resident(t) - before; grown < 4*n*9/10 {
		t.Errorf("%d bytes became resident, want about %d", grown, 4*n)
	}
	if math.Float32bits(v[0]) != 1<<31 {
		t.Error("touching -0 made it 0")
	}
}

// resident is the memory of this process that is not on a disk, in bytes.
func resident(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(data), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
