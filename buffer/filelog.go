package buffer

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/trinity-go/trinity/internal/durable"
)

// fileLog is a Log in a directory, with one record of a durable.Log for each record.
type fileLog struct {
	log    *durable.Log
	index  *durable.LogIndex
	record []byte // reused for the next record
}

// OpenLog opens the log of a directory, and creates the directory if there is none. It truncates a
// record that a killed process did not finish.
func OpenLog(dir string) (Log, error) {
	log, err := durable.OpenLog(dir)
	if err != nil {
		return nil, err
	}
	return &fileLog{log: log, index: durable.IndexLog(dir)}, nil
}

// String implements Log.
func (l *fileLog) String() string { return l.log.Dir() }

// Bounds implements Log.
func (l *fileLog) Bounds() (first, next int64) { return l.log.First(), l.log.Next() }

// Append implements Log.
func (l *fileLog) Append(_ context.Context, r Record) (number int64, err error) {
	if l.record, err = appendRecord(l.record[:0], r); err != nil {
		return 0, err
	}
	return l.log.Append(l.record)
}

// Heads implements Log.
func (l *fileLog) Heads(ctx context.Context, visit func(number int64, h Head) error) (err error) {
	r := durable.ReadLog(l.log.Dir(), l.log.First())
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		number := r.Number() - 1
		h, _, err := readHead(record)
		if err == nil {
			err = visit(number, h)
		}
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("%s, record %d: %w", l, number, err)
		}
	}
}

// Read implements Log.
func (l *fileLog) Read(_ context.Context, number int64, from, to int) (Record, error) {
	data, err := l.index.Read(number)
	if err != nil {
		return Record{}, err
	}
	r, err := readRecord(data, from, to)
	if err != nil {
		return r, fmt.Errorf("%s, record %d: %w", l, number, err)
	}
	return r, nil
}

// Trim implements Log. It removes the segments that end before the number.
func (l *fileLog) Trim(_ context.Context, before int64) error {
	if err := l.index.Close(); err != nil { // not every system removes a file that is open
		return err
	}
	return l.log.Trim(before)
}

// Close implements Log.
func (l *fileLog) Close() error { return errors.Join(l.index.Close(), l.log.Close()) }
