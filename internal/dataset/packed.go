package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/trinity-go/trinity"
)

// Packed concatenates the rows of a source and cuts them into sequences of one length, so that a
// training step has no padding: the packing of pre-training. It keeps the rows' masks, except for
// the first token of a sequence, whose predecessor is in the sequence before. The last sequence of
// all epochs may be shorter.
//
// Attention crosses rows: the rows before it in the sequence are a row's context. The token End,
// which is trained, marks where a row ends.
type Packed struct {
	Rows   *Source
	Length int   // of a sequence, tokens; at least 2
	End    int32 // token that follows each row; −1 for none

	rest      piece
	batches   int64
	sequences int64 // so far
}

// piece holds tokens and their mask.
type piece struct {
	Tokens []int32 `json:"tokens"`
	Mask   []bool  `json:"mask"`
}

type packedCursor struct {
	Rows      json.RawMessage `json:"rows"`
	Rest      piece           `json:"rest"`
	Batches   int64           `json:"batches"`
	Sequences int64           `json:"sequences"`
}

// Total returns the number of sequences over all epochs, 0 for an endless source. A remainder of
// one token does not count. It formats every row.
func (p *Packed) Total() (int, error) {
	tokens := 0
	for i := range p.Rows.data.Len() {
		exps, err := p.Rows.row(i)
		if err != nil {
			return 0, err
		}
		for _, e := range exps {
			tokens += len(p.ended(e).Tokens)
		}
	}
	tokens *= max(0, p.Rows.epochs)
	return (tokens + p.Length - 2) / p.Length, nil
}

// Take implements [trinity.Source].
func (p *Packed) Take(ctx context.Context, want trinity.Want) (trinity.Taken, error) {
	exps, err := p.take(ctx, want.N)
	if err != nil {
		return trinity.Taken{}, err
	}
	groups := make([]trinity.Group, len(exps))
	for i, e := range exps {
		groups[i] = trinity.Group{e}
	}
	return trinity.Taken{Groups: groups}, nil
}

func (p *Packed) take(ctx context.Context, n int) ([]*trinity.Experience, error) {
	if n <= 0 {
		return nil, fmt.Errorf("a batch of %d sequences was asked for", n)
	}
	if err := p.fill(ctx, n*p.Length); err != nil && !errors.Is(err, io.EOF) {
		return nil, err // the rows read so far stay in the rest
	}
	p.batches++
	var out []*trinity.Experience
	for len(out) < n && len(p.rest.Tokens) > 0 {
		if e := p.cut(); e != nil {
			out = append(out, e)
		}
	}
	if len(out) == 0 {
		return nil, io.EOF
	}
	return out, nil
}

// fill takes rows until the given number of tokens is available; it returns io.EOF at the end.
func (p *Packed) fill(ctx context.Context, tokens int) error {
	for len(p.rest.Tokens) < tokens {
		rows, err := p.Rows.take(ctx, p.Rows.format.PerRow)
		if err != nil {
			return err
		}
		for _, e := range rows {
			row := p.ended(e)
			p.rest.Tokens, p.rest.Mask = append(p.rest.Tokens, row.Tokens...), append(p.rest.Mask, row.Mask...)
		}
	}
	return nil
}

// ended appends the token End to a row unless the row ends with it.
func (p *Packed) ended(e *trinity.Experience) piece {
	row := piece{e.Tokens, e.Mask}
	if p.End >= 0 && row.Tokens[len(row.Tokens)-1] != p.End {
		row.Tokens, row.Mask = append(row.Tokens, p.End), append(row.Mask, true)
	}
	return row
}

// cut removes the next sequence from the rest. It returns nil if no token of it is trained.
func (p *Packed) cut() *trinity.Experience {
	n := min(p.Length, len(p.rest.Tokens))
	e := &trinity.Experience{Tokens: slices.Clone(p.rest.Tokens[:n]), Mask: slices.Clone(p.rest.Mask[:n]), PromptLen: 1}
	p.rest = piece{p.rest.Tokens[n:], p.rest.Mask[n:]}
	if n > 0 {
		e.Mask[0] = false
	}
	if e.TrainedTokens() == 0 {
		return nil
	}
	e.ID = trinity.ExperienceID{Step: p.batches, Task: fmt.Sprintf("%s/packed/%d", p.Rows.data.Name(), p.sequences)}
	p.sequences++
	return e
}

// State implements [trinity.Source].
func (p *Packed) State() (trinity.SourceState, error) {
	rows, err := p.Rows.State()
	if err != nil {
		return trinity.SourceState{}, err
	}
	c, err := json.Marshal(packedCursor{Rows: rows.Cursor, Rest: p.rest, Batches: p.batches, Sequences: p.sequences})
	return trinity.SourceState{Cursor: c}, err
}

// Restore implements [trinity.Source].
func (p *Packed) Restore(state trinity.SourceState) error {
	var c packedCursor
	if err := json.Unmarshal(state.Cursor, &c); err != nil {
		return fmt.Errorf("packed dataset: state: %w", err)
	}
	if len(c.Rest.Tokens) != len(c.Rest.Mask) {
		return fmt.Errorf("packed dataset: state: %d tokens with a mask of %d", len(c.Rest.Tokens), len(c.Rest.Mask))
	}
	if err := p.Rows.Restore(trinity.SourceState{Cursor: c.Rows, Pending: state.Pending}); err != nil {
		return err
	}
	p.rest, p.batches, p.sequences = c.Rest, c.Batches, c.Sequences
	return nil
}
