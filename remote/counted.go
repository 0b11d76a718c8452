package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/trinity-go/trinity"
)

// counted is the cursor that goes into the buffer, in every mode: a run may go on in another one.
type counted struct {
	Delivery int64           `json:"delivery"` // from 1
	Cursor   json.RawMessage `json:"cursor,omitempty"`
}

// resumed is where the buffer has an explorer. A cursor that is bare, with the explorer's step itself, is of a run of mode both that did not count yet.
func resumed(ctx context.Context, name string, sink trinity.Sink) (at counted, err error) {
	data, err := sink.Resume(ctx)
	if err != nil || len(data) == 0 {
		return at, err
	}
	var bare struct{ Step *int64 }
	if err := json.Unmarshal(data, &bare); err == nil && bare.Step != nil {
		return counted{Cursor: data}, nil
	}
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&at); err != nil {
		return at, fmt.Errorf("the buffer's cursor of explorer %s is of another kind of run (%w): give the run another name to begin anew", name, err)
	}
	return at, nil
}

// put adds a delivery with its number.
func (at counted) put(ctx context.Context, sink trinity.Sink, d trinity.Delivery) (err error) {
	at.Cursor = d.Cursor
	if d.Cursor, err = json.Marshal(at); err != nil {
		return err
	}
	return sink.Put(ctx, d)
}

// Counting is the sink of an explorer in the trainer's own process: what it puts is counted as that of others is, so that the run may go on in several processes, and back.
func Counting(b trinity.Buffer, name string) trinity.Sink {
	return &counting{Sink: b.Sink(name), name: name}
}

type counting struct {
	trinity.Sink
	name      string
	delivered int64
}

// Resume implements trinity.Sink.
func (c *counting) Resume(ctx context.Context) (json.RawMessage, error) {
	at, err := resumed(ctx, c.name, c.Sink)
	c.delivered = at.Delivery
	return at.Cursor, err
}

// Put implements trinity.Sink.
func (c *counting) Put(ctx context.Context, d trinity.Delivery) error {
	if err := (counted{Delivery: c.delivered + 1}).put(ctx, c.Sink, d); err != nil {
		return err
	}
	c.delivered++
	return nil
}
