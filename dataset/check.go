package dataset

import (
	"context"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
)

// Check formats the rows that the next n experiences come from, taken size at a time, and leaves the source where it is: what is wrong with a row is
// found before a model is loaded, and not when its turn comes. n ≤ 0 is every row. Each row is formatted once, however often it comes. Of rows that
// are too long the error names the first and says how many there are.
func (s *Source) Check(ctx context.Context, n, size int) error {
	r := rehearsal{source: s, measure: func([]*trinity.Experience) int { return 1 }, again: 1}
	return r.run(ctx, n/s.format.PerRow, max(1, size/s.format.PerRow))
}

// Check formats the rows that the next n sequences are made of, as [Source.Check] does; n ≤ 0 is every row.
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

// rehearsal looks at rows before they are trained on.
type rehearsal struct {
	source  *Source
	measure func(row []*trinity.Experience) int
	again   int // what a row measures that comes again, at most

	known  []uint64 // a bit for each row that was looked at
	looked int      // rows

	long    int // rows that are too long
	first   int // of these
	why     *LengthError
	longest int // tokens
}

// run looks at every row, or at those that come until they measure up to need, size at a time, and goes back then.
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

// draw looks at rows as the selector gives them. The first of the data is tried before: keys that do not fit are wrong in all of them.
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

// look formats a row that is not known, and measures it.
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

// tooLong is the error of rows that are too long; nil if there are none.
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
