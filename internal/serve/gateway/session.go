package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
)

// session is the endpoint of one rollout, and the tree of the calls that were made at it.
type session struct {
	model    *trinity.Model
	options  trinity.EndpointOptions
	url, key string
	// within returns the context of a request, which ends with the request and with the rollout.
	within func(request context.Context) (context.Context, context.CancelFunc)
	cancel context.CancelCauseFunc
	forget func()
	// write writes what happens to a rollout of real traffic into the journal. It is nil in a run.
	write func(*entry) error

	responses ofRollout // of the Responses API

	mu        sync.Mutex
	chats     map[digest]*node   // by the chat up to the node's reply, as the client knows it
	answers   map[digest]*answer // to requests
	replied   map[digest][]int   // turns of the replies that an earlier session gave to requests
	nodes     []*node            // in order of arrival
	calls     int                // also those that failed
	inFlight  int                // calls
	clock     int                // counts beginnings and ends of calls
	committed bool
	posted    map[int]*posted // experiences that the program has posted, by their turns; nil learns all
	reward    *trinity.Reward
	failure   *trinity.RolloutError
	broken    error // the engine's
	refused   *trinity.RolloutError
	refusedAt int // when, on the session's clock
}

// node is a reply of the policy.
type node struct {
	parent      *node
	stem        *node               // parent, if the reply continues its sequence
	dialogue    *trinity.Dialogue   // whose newest reply it is; nil for a completion of plain text
	text        *trinity.Experience // of plain text
	sequence    []int32             // that the sampler read and wrote
	sampled     int                 // tokens that it wrote
	temperature float32
	logprobs    []float32 // of the tokens that it wrote
	depth       int       // replies of the policy that the chat had before
	begun       int       // when the request and the call itself began and ended, on the session's clock
	ended       int
	number      int // of the call
	received    int // times that a client got it
	reward      *trinity.Reward
}

// answer is the outcome of a request, for the same request when it comes again.
type answer struct {
	done    chan struct{}
	replies []openai.Reply
	err     error
}

// URL implements [trinity.Endpoint].
func (s *session) URL() string { return s.url }

// Key implements [trinity.Endpoint].
func (s *session) Key() string { return s.key }

// reserve counts n calls and returns the number of the first, or why the rollout takes no more.
func (s *session) reserve(n int) (first int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, refused := &s.options, ""
	switch {
	case s.committed:
		return 0, errEnded
	case o.MaxCalls > 0 && s.calls+n > o.MaxCalls:
		refused = fmt.Sprintf("the rollout may make %d calls of the model, and has made %d", o.MaxCalls, s.calls)
	case s.model.MaxTokens > 0 && s.model.SampledTokens() >= s.model.MaxTokens:
		return 0, s.noTokens()
	default:
		s.calls += n
		if o.Called != nil {
			o.Called()
		}
		return s.calls - n, nil
	}
	return 0, limited(refused)
}

// noTokens refuses a call of a rollout that has sampled all that it may.
func (s *session) noTokens() error {
	return limited(fmt.Sprintf("the rollout's replies have %d tokens, and may have %d (explorer.max_rollout_tokens)",
		s.model.SampledTokens(), s.model.MaxTokens))
}

// limited refuses a call for a limit of the rollout, which no waiting changes.
func limited(refused string) error {
	return &openai.Problem{Status: http.StatusTooManyRequests, Code: "rollout_limit", Message: refused, Final: true}
}

// once samples the replies to a request. The same request that comes again gets the same replies.
func (s *session) once(ctx context.Context, id identity, sample func(context.Context) ([]openai.Reply, error)) ([]openai.Reply, error) {
	for {
		s.mu.Lock()
		before := s.answers[id.digest]
		if before == nil || !id.repeats && !(id.silent && before.pending()) {
			own := &answer{done: make(chan struct{})}
			s.answers[id.digest] = own
			replaced := s.replaced(id)
			s.mu.Unlock()
			if own.err = s.note(&entry{Kind: entryLost, Turns: replaced}); own.err == nil {
				own.replies, own.err = sample(ctx)
			}
			s.settle(id.digest, own)
			return own.replies, own.err
		}
		s.mu.Unlock()
		select {
		case <-before.done:
			if before.err == nil {
				return before.replies, nil
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (a *answer) pending() bool {
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}

// settle lets those who wait for an answer have it. A failed one is forgotten, so that the next
// attempt samples anew.
func (s *session) settle(request digest, a *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.err != nil && s.answers[request] == a {
		delete(s.answers, request)
	}
	close(a.done)
}

// begin notes that a request for n replies begins, and returns when.
func (s *session) begin(n int) (index int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight += n
	s.clock++
	return s.clock
}

// end records what a call gave: a node, or an error.
func (s *session) end(n *node, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	s.clock++
	if err == nil {
		n.ended = s.clock
		s.nodes = append(s.nodes, n)
	}
	s.stopIfBroken(err)
}

// stopIfBroken ends the endpoint if err is a failure of the engine. The lock must be held.
func (s *session) stopIfBroken(err error) {
	var engine *trinity.EngineError
	if errors.As(err, &engine) && s.broken == nil {
		s.broken = err
		s.cancel(err)
	}
}

// sent notes that a client gets a reply, after which its chat may be any of chats.
func (s *session) sent(n *node, chats ...digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.received++
	for _, chat := range chats {
		if s.chats[chat] == nil {
			s.chats[chat] = n
		}
	}
}

// lost notes that a client did not get a reply.
func (s *session) lost(n *node) {
	s.mu.Lock()
	n.received--
	var turns []int
	if n.received <= 0 {
		turns = []int{n.number}
	}
	s.mu.Unlock()
	_ = s.note(&entry{Kind: entryLost, Turns: turns}) // the journal reports a full disk at the next reply
}

// Close implements [trinity.Endpoint].
func (s *session) Close() (*trinity.Recording, error) {
	s.cancel(errEnded)
	s.forget()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.committed = true
	if s.broken != nil {
		return nil, s.broken
	}
	out := &trinity.Recording{Calls: s.calls, Reward: s.reward, Failure: s.failure, CallFailure: s.refused}
	s.record(out)
	return out, nil
}

// record writes the experiences of the replies that the client received, in the order of the tree.
func (s *session) record(out *trinity.Recording) {
	nodes := slices.DeleteFunc(slices.Clone(s.nodes), func(n *node) bool { return n.received <= 0 })
	sortCalls(nodes)
	if s.posted != nil {
		w := weaver{posted: s.posted, each: s.options.Steps}
		w.record(out, nodes)
		return
	}
	last, extended := lastOf(nodes), map[*node]bool{}
	for _, n := range nodes {
		extended[n.parent] = true
	}
	for _, n := range nodes {
		var exps []*trinity.Experience
		switch {
		case n.dialogue == nil:
			exps = []*trinity.Experience{n.text}
		case s.options.Steps:
			exps = n.dialogue.Steps()
		case !extended[n]:
			exps = n.dialogue.Whole()
		}
		if len(exps) == 0 {
			continue
		}
		newest := exps[len(exps)-1]
		if n.reward != nil {
			newest.Reward = *n.reward
		}
		if out.Experiences = append(out.Experiences, exps...); n != last {
			continue
		}
		out.Last, out.Messages = newest, n.messages()
	}
	measure(out.Experiences, len(nodes), len(out.Experiences), s.options.Steps)
}

// messages returns the chat that ends with the reply; nil for plain text.
func (n *node) messages() []trinity.Message {
	if n.dialogue == nil {
		return nil
	}
	return n.dialogue.Messages()
}

// measure writes the metrics of the tree, which has sequences of replies, into the first experience.
func measure(exps []*trinity.Experience, replies, sequences int, steps bool) {
	for i, e := range exps {
		if i > 0 {
			for _, name := range []string{"turns", "branch_count", "extension_rate"} {
				delete(e.Metrics, name)
			}
		}
	}
	if len(exps) == 0 {
		return
	}
	first := exps[0]
	if first.Metrics == nil {
		first.Metrics = map[string]float64{}
	}
	first.Metrics["turns"] = float64(replies)
	delete(first.Metrics, "branch_count")
	delete(first.Metrics, "extension_rate")
	if branches := sequences - 1; !steps && replies > 1 {
		first.Metrics["branch_count"] = float64(branches)
		first.Metrics["extension_rate"] = float64(replies-1-branches) / float64(replies-1)
	}
}
