package gateway

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/internal/serve/web"
)

// TrafficOptions say what becomes of real traffic.
type TrafficOptions struct {
	Dir        string                // of the journal
	Token      string                // that clients must bear to begin a rollout; "" demands none
	Name       string                // of the model
	Task       string                // begins the ids of tasks
	Expiry     time.Duration         // how long a rollout waits after its newest call or reward
	Timeout    time.Duration         // of a request
	Waiting    int                   // requests in flight at most
	Group      int                   // rollouts that make a group
	Compares   bool                  // the algorithm compares the rollouts of a group
	Batch      int                   // groups that make a delivery
	Model      func() *trinity.Model // returns the model of a new session
	Renderer   trinity.Renderer
	Vocabulary int
	Say        func(string)
	// Process passes the groups of a delivery through the experience pipeline, and logs them with the
	// metrics of the traffic.
	Process func(ctx context.Context, step int64, groups []trinity.Group, metrics trinity.Metrics) ([]trinity.Group, error)
	Sink    trinity.Sink // of the trainer
}

// Traffic records the calls of real traffic in a journal. The rollouts wait there for a reward and a
// commit, also across restarts, and then go to the trainer.
type Traffic struct {
	TrafficOptions
	gateway *Gateway
	changed chan struct{} // has an element after a commit

	mu      sync.Mutex
	journal *journal
	closed  error // why no rollout begins any more; nil while rollouts begin
}

// maxPending bounds the rollouts that wait.
const maxPending = 100_000

// idle is how long a session without calls stays in memory.
const idle = 10 * time.Minute

// OpenTraffic opens the journal. ctx lasts as long as the server.
func OpenTraffic(ctx context.Context, o TrafficOptions) (*Traffic, error) {
	t := &Traffic{TrafficOptions: o, changed: make(chan struct{}, 1)}
	var err error
	if t.journal, err = openJournal(o.Dir); err != nil {
		return nil, fmt.Errorf("the journal of real traffic: %w", err)
	}
	t.gateway = New("", o.Name, o.Renderer, o.Vocabulary, o.Say)
	t.gateway.token = o.Token
	t.gateway.api.Timeout, t.gateway.api.Waiting = o.Timeout, o.Waiting
	t.gateway.revive = func(of digest, key string) (*session, error) { return t.revive(ctx, of, key) }
	return t, nil
}

// Close closes the journal.
func (t *Traffic) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.journal.close()
}

// Handler serves POST /v1/rollouts and the endpoints of the rollouts; next serves everything else.
func (t *Traffic) Handler(next http.Handler) http.Handler {
	rollouts := t.gateway.Handler()
	begin := web.Guard(http.HandlerFunc(t.handleBegin), t.Token, forbid)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, _ := keyOf(r)
		switch {
		case strings.HasPrefix(key, keyPrefix) && (t.Token == "" || !web.Authorized(r, t.Token)):
			ctx, cancel := context.WithTimeout(r.Context(), t.Timeout)
			defer cancel()
			rollouts.ServeHTTP(w, r.WithContext(ctx))
		case r.URL.Path == "/v1/rollouts" && r.Method == http.MethodPost:
			begin.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// rolloutReply is the reply to POST /v1/rollouts.
type rolloutReply struct {
	Key string `json:"key"`
	// Expiry is how many seconds the rollout waits after its newest call or reward.
	Expiry float64 `json:"pending_expiry"`
}

func (t *Traffic) handleBegin(w http.ResponseWriter, r *http.Request) {
	if t.Token != "" && !web.Authorized(r, t.Token) {
		openai.Fail(w, &openai.Problem{Status: http.StatusUnauthorized, Code: "invalid_api_key", Message: "the API key is not the server's"})
		return
	}
	data, status, err := web.Body(w, r, maxControl)
	if err != nil {
		openai.Fail(w, &openai.Problem{Status: status, Message: err.Error()})
		return
	}
	key, err := t.begin(data)
	if err != nil {
		openai.Fail(w, err)
		return
	}
	web.WriteJSON(w, http.StatusOK, rolloutReply{key, t.Expiry.Seconds()})
}

// maxGroup bounds the bytes of the name of a group.
const maxGroup = 128

// begin begins a rollout and returns its key.
func (t *Traffic) begin(data []byte) (key string, err error) {
	var in struct {
		Group string `json:"group"`
		Steps bool   `json:"steps"`
	}
	if len(data) > 0 {
		if err := decode(data, &in); err != nil {
			return "", err
		}
	}
	switch {
	case in.Group == "" && t.Compares:
		return "", openai.Bad("group", "the algorithm compares the %d rollouts of a group: name the group of this one", t.Group)
	case len(in.Group) > maxGroup:
		return "", openai.Bad("group", "it has %d bytes; want at most %d", len(in.Group), maxGroup)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed != nil:
		return "", t.closed
	case len(t.journal.rollouts) >= maxPending:
		return "", &openai.Problem{
			Status: http.StatusTooManyRequests, Code: "rollout_limit", Message: fmt.Sprintf("%d rollouts wait for their reward", maxPending),
		}
	}
	key = newKey()
	return key, t.journal.append(&entry{Kind: entryOpen, Time: time.Now(), Rollout: nameOf(digestOf(key)), Group: in.Group, Steps: in.Steps})
}

// nameOf returns the id of the rollout of a key.
func nameOf(d digest) string { return hex.EncodeToString(d[:]) }

// revive returns a session for a rollout that waits, nil if there is no such rollout. Chats that an
// earlier session had begin new sequences.
func (t *Traffic) revive(ctx context.Context, d digest, key string) (*session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.journal.rollouts[nameOf(d)]
	switch {
	case t.journal.ended[nameOf(d)] || p != nil && p.committed:
		return nil, errEnded
	case p == nil:
		return nil, nil
	}
	s := t.gateway.session(ctx, key, t.Model(), trinity.EndpointOptions{Steps: p.steps})
	s.reward, s.replied = p.reward, map[digest][]int{}
	if p.failed != "" {
		s.failure = &trinity.RolloutError{Kind: p.failed, Err: errors.New(p.reason)}
	}
	for _, k := range p.replies {
		n := &node{number: k.Turn, sampled: k.Tokens}
		if s.calls = max(s.calls, k.Turn+1); !k.lost {
			n.received = 1
			var request digest
			if _, err := hex.Decode(request[:], []byte(k.request)); err != nil {
				return nil, err
			}
			s.replied[request] = append(s.replied[request], k.Turn)
		}
		s.nodes = append(s.nodes, n)
	}
	s.write = func(e *entry) error {
		e.Rollout = nameOf(d)
		return t.keep(e)
	}
	return s, nil
}

// keep writes an entry of a rollout.
func (t *Traffic) keep(e *entry) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.journal.rollouts[e.Rollout]; p == nil || p.committed {
		return errEnded
	}
	e.Time = time.Now()
	if err := t.journal.append(e); err != nil {
		return err
	}
	if e.Kind == entryCommit {
		select {
		case t.changed <- struct{}{}:
		default:
		}
	}
	return nil
}

// note writes an entry into the journal, if there is one. An entry about no replies is left out.
func (s *session) note(e *entry) error {
	if s.write == nil || e.Kind == entryLost && len(e.Turns) == 0 {
		return nil
	}
	return s.write(e)
}

// keepReplies writes the replies to a request into the journal, before the client gets them.
func (s *session) keepReplies(nodes []*node, request digest) error {
	if s.write == nil {
		return nil
	}
	e := &entry{Kind: entryReplies, Request: nameOf(request)}
	for _, n := range nodes {
		x := n.text
		if n.dialogue != nil {
			x = n.dialogue.Steps()[0] // earlier replies are in the journal, so a fork of this dialogue has returned them
		}
		data, err := experience.Append(nil, x)
		if err != nil {
			return err
		}
		e.Replies = append(e.Replies, recorded{Turn: n.number, Tokens: n.sampled, Experience: data})
	}
	return s.write(e)
}

// replaced returns the turns of the replies that a request replaces: a client that sends a request to
// an earlier session again did not get its replies. The lock must be held.
func (s *session) replaced(id identity) []int {
	if !id.repeats {
		return nil
	}
	turns := s.replied[id.digest]
	delete(s.replied, id.digest)
	for _, n := range s.nodes {
		if slices.Contains(turns, n.number) {
			n.received = 0
		}
	}
	return turns
}

// dropIdle closes the sessions of rollouts that have ended or had no call for some time. What they hold
// is in the journal.
func (t *Traffic) dropIdle(now time.Time) {
	var idleOnes []*session
	t.gateway.mu.Lock()
	for of, s := range t.gateway.open {
		t.mu.Lock()
		p := t.journal.rollouts[nameOf(of)]
		unused := p == nil || p.committed || now.Sub(p.touched) > idle
		t.mu.Unlock()
		if unused && !s.isBusy() {
			idleOnes = append(idleOnes, s)
		}
	}
	t.gateway.mu.Unlock()
	for _, s := range idleOnes {
		t.gateway.drop(s)
	}
}

// isBusy reports whether calls are in flight.
func (s *session) isBusy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inFlight > 0
}
