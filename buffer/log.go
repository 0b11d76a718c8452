package buffer

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/trinity-go/trinity"
)

// Log keeps the deliveries of a buffer, in the order in which they were put. Records are numbered from 0. One process has a log at a time, and calls one method
// at a time.
type Log interface {
	// String names the log in errors.
	String() string
	// Bounds returns the number of the oldest record that Read still returns, and the number of the next record.
	Bounds() (first, next int64)
	// Append adds a record and returns its number once the record is durable. After an error the log is as it was before: the next record gets the number.
	Append(ctx context.Context, r Record) (number int64, err error)
	// Heads calls visit with the head of each record, from the first that Bounds returns on.
	Heads(ctx context.Context, visit func(number int64, h Head) error) error
	// Read returns a record with its experiences from index from up to index to, or up to its last one. A group that these cut is returned in part.
	Read(ctx context.Context, number int64, from, to int) (Record, error)
	// Trim lets go of the experiences of records before a number; a log may keep more.
	Trim(ctx context.Context, before int64) error
	Close() error
}

// Head is what a record says of a delivery besides its experiences.
type Head struct {
	Explorer    string
	Delivery    int64           // its number among those of the explorer, from 1; a record that repeats a cursor repeats the number
	Needs       int64           // version, see [trinity.Delivery]
	Cursor      json.RawMessage // of the explorer, after the delivery
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
	h := Head{Explorer: explorer, Delivery: number, Needs: d.Needs, Cursor: d.Cursor, Rollouts: rollouts(exps), Experiences: len(exps)}
	return Record{h, d.Groups}
}
