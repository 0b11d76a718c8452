package cpu

import (
	"math"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// ropeTables hold cosines, sines and the factors on queries by position. All sequences use the table at row 0, except under
// "dynamic" scaling. There each length over the model's own has its own frequencies and so its own
// table. The length counts the model's input, which lacks a sequence's last token.
type ropeTables struct {
	cfg      *model.Config
	cos, sin kernel.Matrix // [positions of all tables, rotated pairs]
	query    []float32     // [positions of all tables]; nil if all factors are 1
	base     int           // positions of the table at row 0
	starts   map[int]int   // input length → first row of its own table
}

// ownTable reports whether inputs of this length have their own table.
func (t *ropeTables) ownTable(length int) bool {
	s := t.cfg.RopeScaling
	return s != nil && s.Type == "dynamic" && length > t.cfg.MaxPositions
}

// prepare extends the tables to cover a batch.
func (t *ropeTables) prepare(batch []*trinity.Experience) {
	base, missing := t.base, false
	lengths := map[int]bool{}
	for _, e := range batch {
		n := len(e.Tokens) - 1
		if !t.ownTable(n) {
			base = max(base, n)
			continue
		}
		lengths[n] = true
		if _, ok := t.starts[n]; !ok {
			missing = true
		}
	}
	if base == t.base && !missing {
		return
	}
	if base > t.base {
		base = (base + 255) &^ 255
	}
	t.build(base, lengths)
}

// build computes a table of base positions, and one for each of lengths.
func (t *ropeTables) build(base int, lengths map[int]bool) {
	frequencies, _ := t.cfg.InverseFrequencies(0)
	pairs, rows := len(frequencies), base
	t.base, t.starts = base, map[int]int{}
	for n := range lengths {
		t.starts[n] = rows
		rows += n
	}
	t.cos, t.sin = kernel.NewMatrix(make([]float32, rows*pairs), rows, pairs), kernel.NewMatrix(make([]float32, rows*pairs), rows, pairs)
	if s := t.cfg.RopeScaling; s != nil && s.QueryBeta != 0 {
		t.query = make([]float32, rows)
	}
	t.fill(0, base, t.cfg.MaxPositions)
	for n, from := range t.starts {
		t.fill(from, n, n)
	}
}

// fill computes n positions, from a row on, for inputs of length tokens. The sampler does the same
// arithmetic, so that both get the same bits.
func (t *ropeTables) fill(from, n, length int) {
	inverse, scale := t.cfg.InverseFrequencies(length)
	for position := range n {
		cos, sin := t.cos.Row(from+position), t.sin.Row(from+position)
		for i, f := range inverse {
			sine, cosine := math.Sincos(float64(position) * f)
			cos[i], sin[i] = float32(cosine*scale), float32(sine*scale)
		}
		if t.query != nil {
			t.query[from+position] = t.cfg.RopeScaling.QueryScale(position)
		}
	}
}

// start returns the first row of the table for inputs of this length.
func (t *ropeTables) start(length int) int {
	if t.ownTable(length) {
		return t.starts[length]
	}
	return 0
}
