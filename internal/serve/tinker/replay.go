package tinker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// story is what a journal tells about a model.
type story struct {
	made     *record // nil if the log no longer has it: there is a state then
	note     *note   // nil if there is no state
	requests map[int32]*entry
	results  map[int32]*entry
	gaps     []gap
	next     int32 // the request that runs next
}

// gap are the requests from the first, which has not come, until one that runs again. Those between have failed, or have
// not come either.
type gap struct{ first, until int32 }

// entry is a record with its number.
type entry struct {
	record
	number int64
}

// call is a numbered request of a model.
type call struct {
	model string
	seq   int32
	slice int // tokens that are computed at once
	run   func(ctx context.Context, m *model) (any, error)
	// redo repeats what a request with a result has done to the trainer. nil does nothing.
	redo func(ctx context.Context, m *model, failed *tinker.Failed) error
}

// readers read the requests of calls with numbers, by the names that the log has for them.
type readers map[string]func(body []byte) (*call, error)

func (r readers) read(name string, body []byte) (*call, error) {
	if r[name] == nil {
		return nil, fmt.Errorf("the call %.40q is not in this version", name)
	}
	return r[name](body)
}

// Calls that the log names.
const (
	callCreate = "create_model"
	callPass   = "forward_backward"
	callStep   = "optim_step"
	callSave   = "save_weights"
	callLoad   = "load_weights"
	callRefuse = "refused"
)

// read reads the journal. For a replay it keeps the requests that the last state does not cover, and else the requests
// without a result. Of results it keeps that they are there, and for a replay how they failed.
func (j *journal) read(forReplay bool) (*story, error) {
	t := &story{requests: map[int32]*entry{}, results: map[int32]*entry{}, next: 1}
	var err error
	if t.note, err = j.readNote(); err != nil {
		return nil, err
	}
	from := int32(0)
	if t.note != nil {
		from, t.next = t.note.Next, t.note.Next
	}
	r := durable.ReadLog(filepath.Join(j.dir, logName), j.log.First())
	defer r.Close()
	for {
		number := r.Number()
		data, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		rec, err := decodeRecord(data)
		if err != nil {
			return nil, fmt.Errorf("%s: record %d: %w", j.log.Dir(), number, err)
		}
		switch rec.Kind {
		case made:
			t.made = rec
		case requested:
			if rec.Seq >= from {
				t.requests[rec.Seq] = &entry{*rec, number}
			}
		case gapped:
			t.gaps = append(t.gaps, gap{rec.Seq, rec.Until})
		case resulted:
			t.next = max(t.next, rec.Seq+1)
			if !forReplay {
				delete(t.requests, rec.Seq)
			}
			if !forReplay || rec.Form != failed {
				rec.payload = nil
			}
			t.results[rec.Seq] = &entry{*rec, number}
		default: // what it has done is not repeated, so the bits would be others
			return nil, fmt.Errorf("%s: record %d is a %.40q, which this version does not know: start the newer one that wrote it",
				j.log.Dir(), number, rec.Kind)
		}
	}
	if t.made == nil && t.note == nil {
		return nil, fmt.Errorf("%s: the state is missing, and the log begins with record %d", j.dir, j.log.First())
	}
	return t, nil
}

// origin says how the model was made.
func (t *story) origin() *origin {
	if t.note != nil {
		return &t.note.Origin
	}
	return t.made.Origin
}

// enter brings a model into memory: it opens its trainer, loads the last state, and repeats what the requests since
// then have done. Slices are cut as they were, so the trainer has the same bits.
func (m *model) enter(ctx context.Context, s *Server) error {
	if m.trainer != nil {
		return nil
	}
	t, err := m.journal.read(true)
	if err != nil {
		return &ownError{err}
	}
	if err := m.open(ctx, s, t); err != nil {
		return err
	}
	if err := m.replay(ctx, s, t); err != nil {
		return errors.Join(err, m.close())
	}
	m.inMemory.Store(true)
	return nil
}

func (m *model) close() error {
	if m.trainer == nil {
		return nil
	}
	err := m.trainer.Close()
	m.trainer = nil
	m.inMemory.Store(false)
	return err
}

// open opens the trainer of the last state, or as the model was made.
func (m *model) open(ctx context.Context, s *Server, t *story) (err error) {
	m.pending, m.spoilt = false, ""
	if t.note == nil {
		m.trainer, err = s.all.openMade(ctx, m, t.made)
		return isForLackOfRoom(err)
	}
	if m.trainer, err = m.base.Open(ctx, m.recipe.lora(), 0); err != nil {
		return isForLackOfRoom(err)
	}
	if err := m.trainer.LoadState(ctx, filepath.Join(m.journal.dir, stateName)); err != nil {
		return errors.Join(&ownError{err}, m.close())
	}
	m.pending, m.spoilt = t.note.Pending, t.note.Spoilt
	return nil
}

// openMade opens the trainer of a new model.
func (s *catalog) openMade(ctx context.Context, m *model, r *record) (engine.Trainer, error) {
	if r.Call == callLoad {
		return s.openLoaded(ctx, m.session.owner, r.payload)
	}
	seed, err := seedOf(r.payload)
	if err != nil {
		return nil, err
	}
	return m.base.Open(ctx, m.recipe.lora(), seed)
}

// replay repeats what the requests since the last state have done.
func (m *model) replay(ctx context.Context, s *Server, t *story) error {
	if turn := m.turn; turn != nil {
		turn.repeats = true
		defer func() { turn.repeats = false }()
	}
	from := int32(1)
	if t.note != nil {
		from = t.note.Next
	}
	for _, seq := range slices.Sorted(maps.Keys(t.results)) {
		if seq < from {
			continue
		}
		result, request, gap := t.results[seq], t.requests[seq], t.gapOver(from, seq)
		if request == nil || from < seq && gap == nil {
			return &ownError{fmt.Errorf("%s: a record of seq_id %d is missing", m.journal.log.Dir(), from)}
		}
		if from < seq {
			m.spoilt = notCome(gap.first)
		}
		from = seq + 1
		c, err := s.calls.read(request.Call, request.payload)
		if err != nil {
			return &ownError{fmt.Errorf("%s: record %d: %w", m.journal.log.Dir(), request.number, err)}
		}
		if c.redo == nil || result.NotRun {
			continue
		}
		var not *tinker.Failed
		if result.Form == failed {
			given, err := result.result()
			if err != nil {
				return &ownError{fmt.Errorf("%s: record %d: %w", m.journal.log.Dir(), result.number, err)}
			}
			not = given.(*tinker.Failed)
		}
		c.slice = request.Slice
		if c.slice > m.base.MicroTokens {
			return &ownError{fmt.Errorf("seq_id %d was computed in slices of %d tokens, and this service has %d: "+
				"start it with the --max-model-len that it had", seq, c.slice, m.base.MicroTokens)}
		}
		if err := c.redo(ctx, m, not); err != nil {
			return &ownError{fmt.Errorf("seq_id %d had a result, and fails when it is replayed: %w", seq, err)}
		}
		m.journal.did(request.Call)
	}
	return nil
}

// gapOver returns a gap that has the requests from a number until another; nil if there is none.
func (t *story) gapOver(from, until int32) *gap {
	if i := slices.IndexFunc(t.gaps, func(g gap) bool { return g.first <= from && until <= g.until }); i >= 0 {
		return &t.gaps[i]
	}
	return nil
}

// did notes that a request has changed the trainer.
func (j *journal) did(call string) {
	j.changed = j.changed || call != callSave
	if call == callStep {
		j.steps++
	}
}

// leave takes a model out of memory: its state is on the disk, and its next request brings it back.
func (m *model) leave(ctx context.Context, s *Server) error {
	if m.journal.changed {
		if err := m.cut(ctx, s); err != nil {
			return err
		}
	}
	return m.close()
}
