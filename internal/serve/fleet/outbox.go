package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/internal/trace"
)

// Bounds of what an explorer keeps and sends of its spans.
const (
	maxWaiting = 1 << 14 // spans that wait to be sent
	maxSpans   = 2048    // of a batch
	maxBatch   = 1 << 20 // bytes of a batch
	maxText    = 1024    // bytes of a text in a span
	spansEvery = time.Second
	spansLimit = 2 * time.Second // for a batch
)

// batch is a request with spans, in the trainer's time.
type batch struct {
	Number int64             `json:"number"` // from 1 on: the trainer keeps a batch that comes twice once
	Spans  []json.RawMessage `json:"spans"`  // see trace.Span
}

// outbox has the spans of an explorer that the trainer has not got.
type outbox struct {
	turn chan struct{} // has room while nobody sends
	wake chan struct{} // a delivery was made
	base time.Time

	mu      sync.Mutex // guards:
	wanted  bool       // the trainer keeps spans
	trainer string     // word of its process
	clock   clock
	fresh   []trinity.Span // in this process's time
	ready   []trace.Span   // in the trainer's time
	number  int64          // of the last batch
	unsent  []byte         // that batch, until the trainer has it
	holds   int            // its spans
	lost    int
}

func newOutbox() outbox {
	return outbox{turn: make(chan struct{}, 1), wake: make(chan struct{}, 1), base: time.Now()}
}

// here returns a time on a clock that nobody sets: that of the process's begin and what has passed since.
func (o *outbox) here(t time.Time) time.Time { return o.base.Add(t.Sub(o.base)).Round(0) }

// joined notes what a trainer has told as the explorer joined it.
func (o *outbox) joined(reply joinReply) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wanted, o.trainer = reply.Spans, reply.Trainer
}

// answered learns the trainer's clock from a reply. Spans of the time before a clock was set keep the
// relation that the clocks had then.
func (o *outbox) answered(sent, got time.Time, t timing) {
	r, ok := readingOf(o.here(sent), o.here(got), t)
	if !ok {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.clock.jumped(r) {
		o.settle()
		o.clock = clock{}
	}
	o.clock.add(r)
}

// settle turns the fresh spans into the trainer's time. The lock is held.
func (o *outbox) settle() {
	ahead := o.clock.best().ahead
	for _, s := range o.fresh {
		s.Begin, s.End = o.here(s.Begin).Add(ahead), o.here(s.End).Add(ahead)
		line := trace.SpanOf(s)
		for _, text := range []*string{&line.Name, &line.For, &line.ID} {
			*text = cut(*text)
		}
		o.ready = append(o.ready, line)
	}
	o.fresh = o.fresh[:0]
}

// cut returns the beginning of a text.
func cut(text string) string {
	end := min(len(text), maxText)
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// add adds a span, unless too many wait.
func (o *outbox) add(s trinity.Span) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !o.wanted:
	case o.waiting() >= maxWaiting:
		o.lost++
	default:
		o.fresh = append(o.fresh, s)
	}
}

// waiting returns the number of spans that the trainer has not got. The lock is held.
func (o *outbox) waiting() int { return len(o.fresh) + len(o.ready) + o.holds }

func (o *outbox) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.waiting()
}

// next returns the batch to send; nil if there is none.
func (o *outbox) next() ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unsent != nil {
		return o.unsent, nil
	}
	if o.settle(); len(o.ready) == 0 {
		return nil, nil
	}
	b, size := batch{Number: o.number + 1}, 0
	for _, s := range o.ready[:min(maxSpans, len(o.ready))] {
		line, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		if size += len(line) + 1; size > maxBatch-64 {
			break
		}
		b.Spans = append(b.Spans, line)
	}
	data, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	o.ready = append(o.ready[:0], o.ready[len(b.Spans):]...)
	o.unsent, o.holds, o.number = data, len(b.Spans), b.Number
	return data, nil
}

// sent notes that the trainer has the last batch, or does not take it.
func (o *outbox) sent(taken bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !taken {
		o.lost += o.holds
	}
	o.unsent, o.holds = nil, 0
}

// drop forgets all spans, and keeps no more until the explorer joins again.
func (o *outbox) drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wanted, o.fresh, o.ready, o.unsent, o.holds = false, nil, nil, nil, 0
}

// Span takes a span for the trainer's trace. It never blocks. It may be called before the client joins.
func (c *Client) Span(s trinity.Span) { c.spans.add(s) }

// SendSpans sends spans to the trainer, with each delivery and every few seconds, until ctx ends. What
// the trainer does not take is lost, and no delivery waits for it.
func (c *Client) SendSpans(ctx context.Context) error {
	ticker := time.NewTicker(spansEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-c.spans.wake:
		case <-ticker.C:
		case <-ctx.Done():
		}
		c.sendSpans(context.WithoutCancel(ctx))
	}
	c.spans.mu.Lock()
	defer c.spans.mu.Unlock()
	if lost := c.spans.lost + c.spans.waiting(); lost > 0 && c.Say != nil {
		c.Say(fmt.Sprintf("the trainer's trace lacks %d spans of explorer %s, which it did not take in time", lost, c.Name))
	}
	return nil
}

// sendSpans sends the spans that are there, until one request fails or the time has passed.
func (c *Client) sendSpans(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, spansLimit)
	defer cancel()
	select {
	case c.spans.turn <- struct{}{}:
		defer func() { <-c.spans.turn }()
	case <-ctx.Done():
		return
	}
	for c.sendBatch(ctx) {
	}
}

// sendBatch reports whether the trainer has got a batch.
func (c *Client) sendBatch(ctx context.Context) bool {
	if c.spans.count() == 0 {
		return false
	}
	at, err := c.Place.address()
	if err != nil {
		return false
	}
	if c.seesTrace() {
		c.spans.drop()
		return false
	}
	body, err := c.spans.next()
	if err != nil || body == nil {
		return false
	}
	var reply timing
	sent := time.Now()
	err = c.request(ctx, at, http.MethodPost, c.path("/spans"), body, &reply)
	if err != nil && (retry.IsTemporary(err) || errors.Is(err, errNoSession) || ctx.Err() != nil) {
		return false // the same batch is sent again
	}
	if err == nil {
		c.spans.answered(sent, time.Now(), reply)
	}
	c.spans.sent(err == nil)
	return err == nil
}

// seesTrace reports whether the explorer's own directory is the trainer's, so that its spans are there.
func (c *Client) seesTrace() bool {
	c.spans.mu.Lock()
	word := c.spans.trainer
	c.spans.mu.Unlock()
	a, err := readAddress(filepath.Join(c.Dir, AddressFile))
	return err == nil && word != "" && a.Word == word
}
