package buffer

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/trinity-go/trinity"
)

// Log keeps the deliveries of a buffer, in the order of the puts. Records are numbered from 0. One
// process uses a log at a time, and calls one method at a time.
type Log interface {
	// String names the log in errors.
	String() string
	// Bounds returns the number of the oldest record that Read still returns, and the number of the
	// next record.
	Bounds() (first, next int64)
	// Append adds a record and returns its number once the record is durable. After an error the log
	// is as before, and the next record gets the number.
	Append(ctx context.Context, r Record) (number int64, err error)
	// Heads calls visit with the head of each record, from the first of Bounds on.
	Heads(ctx context.Context, visit func(number int64, h Head) error) error
	// Read returns a record with its experiences from index from to before index to, or to its end. If
	// the range cuts a group, Read returns a part of the group.
	Read(ctx context.Context, number int64, from, to int) (Record, error)
	// Trim may remove the experiences of the records before a number.
	Trim(ctx context.Context, before int64) error
	Close() error
}

// Head is a record without its experiences.
type Head struct {
	Explorer    string
	Delivery    int64           // number of the explorer's delivery, from 1; a repeated cursor repeats it
	Needs       int64           // version, see [trinity.Delivery]
	Cursor      json.RawMessage // the explorer's state after the delivery
	Rollouts    int
	Experiences int
}

// Record is a delivery in a log.
type Record struct {
	Head
	Groups []trinity.Group
}

// newRecord makes the record of an explorer's delivery.
func newRecord(explorer string, number int64, d trinity.Delivery) Record {
	exps := slices.Concat(d.Groups...)
	return Record{Groups: d.Groups, Head: Head{
		Explorer: explorer, Delivery: number, Needs: d.Needs, Cursor: d.Cursor, Rollouts: rollouts(exps), Experiences: len(exps),
	}}
}
