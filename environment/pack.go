package environment

import (
	"fmt"

	"github.com/trinity-go/trinity"
)

// place is where a task stands: alone, or in a pack whose tasks have the same unknowns.
type place struct {
	seed, packSeed *uint64 // columns of the row; nil without
	index, size    int     // of the task in its pack
}

// placeOf reads the columns seed, pack_seed, task_idx and pack_size. Workflows of packs add the last
// three.
func placeOf(t *trinity.Task) (p place, err error) {
	p.size = 1
	err = columns(t, map[string]any{"seed": &p.seed, "pack_seed": &p.packSeed, "task_idx": &p.index, "pack_size": &p.size})
	if err == nil && (p.index < 0 || p.size < 1) {
		err = fmt.Errorf("columns \"task_idx\" and \"pack_size\": want 0 and 1 at least, got %d and %d", p.index, p.size)
	}
	return p, err
}

// seeds returns the seed of the task's own draws, and that of its unknowns.
func (p place) seeds(episode uint64) (own, unknowns uint64) {
	if own = episode; p.seed != nil {
		own = *p.seed
	}
	if unknowns = own; p.packSeed != nil {
		unknowns = *p.packSeed
	}
	return own, unknowns
}

// between draws a whole number from low to high.
func (r *numpyRandom) between(low, high int) int { return low + r.below(uint32(high-low+1)) }

// uniform draws a number from low to high.
func (r *numpyRandom) uniform(low, high float64) float64 { return low + (high-low)*r.float64() }
