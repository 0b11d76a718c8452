package dataset

import (
	"context"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
)

// Check formats the rows of the next n experiences, taken size at a time, and does not move the
// source. So an error in a row shows before the run loads a model. n ≤ 0 means every row. Check
// formats each row once, however often it comes. The error for rows that are too long names the
// first and their number.
func (s *Source) Check(ctx context.Context, n, size int) error {
	r := rehearsal{source: s, measure: func(row []*trinity.Experience) int { return max(1, len(row)/s.format.PerRow) }, again: 1}
	if s.format.Varies {
		size = 1 // as Take draws them
	}
	return r.run(ctx, n/s.format.PerRow, max(1, size/s.format.PerRow))
}

// Check formats the rows of the next n sequences, as [Source.Check] does; n ≤ 0 means every row.
func (p *Packed) Check(ctx context.Context, n int) error {
	r := rehearsal{source: p.Rows, measure: func(row []*trinity.Experience) int {
		tokens := 0
		for _, e := range row {
			tokens += len(p.ended(e).Tokens)
		}
		return tokens
	}}
	return r.run(ctx, n*p.Length, 1)
}

// rehearsal formats rows before training reads them.
type rehearsal struct {
	source  *Source
	measure func(row []*trinity.Experience) int
	again   int // the largest measure of a row that comes again

	known  []uint64 // a bit for each formatted row
	looked int      // rows

	long    int // rows that are too long
	first   int // of these
	why     *LengthError
	longest int // tokens
}

// run formats every row, or the next rows until their measures add up to need, size at a time.
// Then it restores the source.
func (r *rehearsal) run(ctx context.Context, need, size int) error {
	s := r.source
	if s.data.Len() == 0 {
		return fmt.Errorf("dataset %s has no rows", s.data.Name())
	}
	r.known = make([]uint64, (s.data.Len()+63)/64)
	if need <= 0 {
		if err := r.all(ctx); err != nil {
			return err
		}
		return r.tooLong()
	}
	state, err := s.sel.State()
	if err != nil {
		return err
	}
	if err := r.draw(ctx, need, size); err != nil {
		return err
	}
	if err := s.sel.Restore(state); err != nil {
		return err
	}
	return r.tooLong()
}

func (r *rehearsal) all(ctx context.Context) error {
	for row := range r.source.data.Len() {
		if _, err := r.look(ctx, row); err != nil {
			return err
		}
	}
	return nil
}

// draw formats rows in the order of the selector. It first tries the first row of the data,
// because wrong keys are wrong in every row.
func (r *rehearsal) draw(ctx context.Context, need, size int) error {
	first, err := r.look(ctx, 0)
	if err != nil {
		return err
	}
	for sum := 0; sum < need && r.looked < r.source.data.Len(); {
		rows, err := r.source.sel.Next(size)
		if err != nil {
			return err
		}
		for _, row := range rows {
			n, err := r.look(ctx, row)
			if err != nil {
				return err
			}
			if row == 0 {
				n, first = first, r.again
			}
			sum += n
		}
	}
	return nil
}

// look formats a row, unless it is known, and returns its measure.
func (r *rehearsal) look(ctx context.Context, row int) (int, error) {
	if r.known[row/64]&(1<<(row%64)) != 0 {
		return r.again, nil
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	exps, err := r.source.row(row)
	var long *LengthError
	if errors.As(err, &long) {
		if r.long == 0 || row < r.first {
			r.first, r.why = row, long
		}
		r.long++
		r.longest = max(r.longest, long.Tokens)
	} else if err != nil {
		return 0, err
	}
	r.known[row/64] |= 1 << (row % 64)
	r.looked++
	return r.measure(exps), nil
}

// tooLong returns the error for rows that are too long; nil if there are none.
func (r *rehearsal) tooLong() error {
	if r.long == 0 {
		return nil
	}
	where := r.source.data.Where(r.first)
	if r.long == 1 {
		return fmt.Errorf("%s: %w", where, r.why)
	}
	return fmt.Errorf("%s: %w; so it is with %d of %d rows, the longest has %d tokens", where, r.why, r.long, r.looked, r.longest)
}
