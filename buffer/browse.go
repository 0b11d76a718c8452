package buffer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
)

// Seen is an experience in the log of a buffer, or a record of it that is damaged.
type Seen struct {
	Record     int64 // number of the delivery
	Index      int   // of the experience in it
	Experience *trinity.Experience
	Err        error // why the record cannot be read
	Last       bool  // no more experiences of the record follow
}

// Browse calls visit for the experiences in the log of a directory, from one of a record on, until visit
// returns false. It returns whether none follows yet. It takes no lock and changes nothing, so that a run
// may append meanwhile.
func Browse(ctx context.Context, dir string, record int64, index int, visit func(Seen) bool) (end bool, err error) {
	first, err := durable.LogBegins(dir)
	if err != nil {
		return false, err
	}
	if record < first {
		record, index = first, 0
	}
	r := durable.ReadLog(dir, record)
	defer func() { err = errors.Join(err, r.Close()) }()
	for ctx.Err() == nil {
		data, err := r.Next()
		number := r.Number() - 1
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			number++
			if number >= record && !visit(Seen{Record: number, Err: err, Last: true}) {
				return false, nil
			}
			if err := r.Skip(); errors.Is(err, io.EOF) {
				return true, nil
			} else if err != nil {
				return false, err
			}
			continue
		}
		from := 0
		if number == record {
			from = index
		}
		if !browseRecord(dir, data, number, from, visit) {
			return false, nil
		}
	}
	return false, context.Cause(ctx)
}

// browseRecord visits the experiences of a record.
func browseRecord(dir string, data []byte, number int64, from int, visit func(Seen) bool) bool {
	h, _, err := readHead(data)
	if err == nil && from >= h.Experiences {
		return true
	}
	var r Record
	if err == nil {
		r, err = readRecord(data, from, math.MaxInt)
	}
	if err != nil {
		return visit(Seen{Record: number, Err: fmt.Errorf("%s, record %d: %w", dir, number, err), Last: true})
	}
	i := from
	for _, g := range r.Groups {
		for _, e := range g {
			if !visit(Seen{Record: number, Index: i, Experience: e, Last: i == h.Experiences-1}) {
				return false
			}
			i++
		}
	}
	return true
}
