package cpu

import (
	"fmt"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// account takes the memory that the engine keeps, and records it part by part. The account of a
// plan only counts: the vectors that it returns are nil.
type account struct {
	planning bool
	arena    *kernel.Arena // weights, gradient and optimizer state
	parts    []engine.MemoryPart
}

// newAccount returns an empty account.
func newAccount(planning bool) account {
	a := account{planning: planning}
	a.arena = a.newArena()
	return a
}

// newArena returns an arena for more memory, which the caller records with note.
func (a *account) newArena() *kernel.Arena {
	if a.planning {
		return kernel.NewTally()
	}
	return kernel.NewArena()
}

// take returns n floats that the engine keeps.
func (a *account) take(kind string, n int, why string) ([]float32, error) {
	v, err := a.arena.Float32(n)
	if err != nil {
		return nil, fmt.Errorf("cpu: %s: %w", kind, err)
	}
	a.note(kind, 4*int64(n), why)
	return v, nil
}

// takeBytes returns n bytes that the engine keeps.
func (a *account) takeBytes(kind string, n int, why string) ([]uint8, error) {
	v, err := a.arena.Uint8(n)
	if err != nil {
		return nil, fmt.Errorf("cpu: %s: %w", kind, err)
	}
	a.note(kind, int64(n), why)
	return v, nil
}

// note records memory that was taken. Consecutive notes of one kind become one part.
func (a *account) note(kind string, bytes int64, why string) {
	if n := len(a.parts) - 1; n >= 0 && a.parts[n].Kind == kind {
		a.parts[n].Bytes += bytes
		return
	}
	a.parts = append(a.parts, engine.MemoryPart{Kind: kind, Bytes: bytes, Why: why})
}
