package gateway

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/internal/wire/score"
)

// posted is an experience as a program posts it: what becomes of the sequence that ends with a call.
type posted struct {
	Turn      *int               `json:"turn"` // number of the call
	Reward    *float64           `json:"reward"`
	Parts     numbers            `json:"parts"`
	Metrics   numbers            `json:"metrics"`
	Info      map[string]any     `json:"info"`
	Learn     *ranges            `json:"learn"`     // of the response; nil learns all that the policy sampled
	Truncated trinity.Truncation `json:"truncated"` // "" leaves what the calls say
	// Teacher are log-probabilities of the response under a teacher, null for tokens that are not
	// learnt; nil leaves them to the trainer.
	Teacher []*float32 `json:"teacher_logprobs"`

	reward *trinity.Reward // of Reward and Parts; nil leaves that of the call, or of the rollout
}

// ranges are places of tokens in a response, each from its first token to the one behind its last. A mask
// of bits would hide them from who writes a program or reads an error, and grows with the response.
type ranges [][]int

// takeExperiences takes which sequences the rollout is trained on, and how. The newest post counts.
func (s *session) takeExperiences(data []byte) (any, error) {
	var in struct {
		Experiences []*posted `json:"experiences"`
	}
	if err := decode(data, &in); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.committed:
		return nil, errEnded
	case s.write != nil:
		return nil, badExperience("real traffic is trained on as it was recorded: post a reward")
	case len(in.Experiences) == 0:
		return nil, badExperience("there is none: name the calls with which the sequences end that are learnt, or POST fail if none is")
	}
	named := map[int]*posted{}
	for i, p := range in.Experiences {
		switch {
		case p == nil || p.Turn == nil:
			return nil, badExperience("number %d has no turn: the call with which its sequence ends", i)
		case named[*p.Turn] != nil:
			return nil, badExperience("call %d is named twice", *p.Turn)
		}
		n := received(s.nodes, *p.Turn)
		if n == nil {
			return nil, badExperience(noCall, *p.Turn)
		}
		if err := p.check(n.path(s.options.Steps)); err != nil {
			return nil, err
		}
		named[*p.Turn] = p
	}
	s.posted = named
	return done{true}, nil
}

// noCall is the message about the number of a call.
const noCall = "there is no call %d: GET rollout lists them"

func badExperience(format string, args ...any) error {
	return openai.Bad("experiences", "experiences: "+format, args...)
}

// received returns the reply of a call; nil if no client received it. The session's lock must be held.
func received(replies []*node, turn int) *node {
	if i := slices.IndexFunc(replies, func(n *node) bool { return n.number == turn && n.received > 0 }); i >= 0 {
		return replies[i]
	}
	return nil
}

// truncations are the values of truncated that a program may give.
var truncations = []trinity.Truncation{
	trinity.NotTruncated, trinity.ResponseTruncated, trinity.TokensTruncated, trinity.TurnsTruncated,
}

// maxMetrics bounds the metrics of a posted experience, and reservedMetrics are those that the explorer
// measures of every experience.
const maxMetrics = 64

var reservedMetrics = []string{"reward", "response_length", "prompt_length", "environment_length", "untrained_token_count"}

// check checks what is posted about a sequence, and adds its reward up.
func (p *posted) check(path []*node) error {
	turn := *p.Turn
	var err error
	if p.reward, err = rewardOf(p.Reward, p.Parts); err != nil {
		return badExperience("parts of call %d: %v", turn, err)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Metrics)) {
		if err := score.CheckName(name); err != nil {
			return badExperience("metrics of call %d: one is %v", turn, err)
		}
		if slices.Contains(reservedMetrics, name) || len(p.Metrics) > maxMetrics {
			return badExperience("metrics of call %d: want at most %d, none of them called %s", turn, maxMetrics,
				strings.Join(reservedMetrics, ", "))
		}
	}
	if !slices.Contains(truncations, p.Truncated) {
		return badExperience("truncated of call %d is %q; want one of %q", turn, p.Truncated, truncations)
	}
	own, length := places(path)
	sampled := own.mask(length)
	if p.Learn == nil {
		return p.checkTeacher(sampled)
	}
	end := 0 // of the range before
	for i, r := range *p.Learn {
		switch {
		case len(r) != 2 || r[0] < end || r[1] < r[0]:
			return badExperience("learn of call %d: range %d is %v; want [from, to], %d or more and not falling", turn, i, r, end)
		case r[1] > length:
			return badExperience("learn of call %d ends at token %d, and its response has %d", turn, r[1], length)
		}
		if at := slices.Index(sampled[r[0]:r[1]], false); at >= 0 {
			return badExperience("learn of call %d names token %d, which the policy did not sample", turn, r[0]+at)
		}
		end = r[1]
	}
	return p.checkTeacher(p.Learn.mask(length))
}

// checkTeacher returns an error unless each learnt token has a log-probability of the teacher.
func (p *posted) checkTeacher(learnt []bool) error {
	if n := len(p.Teacher); p.Teacher != nil && n != len(learnt) {
		return badExperience("teacher_logprobs of call %d are %d, and its response has %d tokens: want one for each", *p.Turn, n, len(learnt))
	}
	for i, lp := range p.Teacher {
		if lp == nil && learnt[i] {
			return badExperience("teacher_logprobs of call %d are null at token %d, which is learnt", *p.Turn, i)
		}
	}
	return nil
}

// mask returns which of n tokens are in the ranges.
func (all ranges) mask(n int) []bool {
	mask := make([]bool, n)
	for _, r := range all {
		for i := r[0]; i < r[1]; i++ {
			mask[i] = true
		}
	}
	return mask
}

// path returns the replies of the sequence that ends with n, the oldest first: n alone if each call is an
// experience.
func (n *node) path(steps bool) []*node {
	path := []*node{n}
	for m := n.stem; m != nil && !steps; m = m.stem {
		path = append(path, m)
	}
	slices.Reverse(path)
	return path
}

// places returns where the replies of a sequence stand in its response, and the length of that in tokens.
func places(path []*node) (own ranges, length int) {
	prompt := path[0].before()
	for _, n := range path {
		own = append(own, []int{n.before() - prompt, len(n.sequence) - prompt})
	}
	return own, len(path[len(path)-1].sequence) - prompt
}

// before returns the number of tokens before the reply.
func (n *node) before() int { return len(n.sequence) - n.sampled }

// continuedBy reports whether a reply continues the sequence of n. An experience has one temperature.
func (n *node) continuedBy(prompt []int32, temperature float32) bool {
	return len(n.sequence) <= len(prompt) && slices.Equal(n.sequence, prompt[:len(n.sequence)]) && n.temperature == temperature
}

// weaver makes the experiences that a program has posted.
type weaver struct {
	posted map[int]*posted
	each   bool                           // call is an experience of its own
	steps  map[*node]*trinity.Experience  // replies behind all that the policy read
	learnt map[*trinity.Experience][]bool // of replies, the sampled tokens that some experience learns
}

// record writes the posted experiences, in the order of the sorted calls.
func (w *weaver) record(out *trinity.Recording, nodes []*node) {
	w.steps, w.learnt = map[*node]*trinity.Experience{}, map[*trinity.Experience][]bool{}
	sequences, continued := 0, map[*node]bool{}
	for _, n := range nodes {
		continued[n.stem] = true
	}
	for _, n := range nodes {
		if !continued[n] {
			sequences++
		}
	}
	named := slices.DeleteFunc(slices.Clone(nodes), func(n *node) bool { return w.posted[n.number] == nil })
	last := lastOf(named)
	for _, n := range named {
		p := w.posted[n.number]
		x := w.experience(n, p)
		if reward := cmp.Or(p.reward, n.reward); reward != nil {
			x.Reward = *reward
		}
		if out.Experiences = append(out.Experiences, x); n == last {
			out.Last, out.Messages = x, n.messages()
		}
	}
	measure(out.Experiences, len(nodes), sequences, w.each)
	for i, n := range named {
		x, own := out.Experiences[i], w.posted[n.number].Metrics
		if x.Metrics == nil {
			x.Metrics = own
		}
		maps.Copy(x.Metrics, own)
	}
}

// experience returns the sequence that ends with n, as the program has posted it.
func (w *weaver) experience(n *node, p *posted) *trinity.Experience {
	path := n.path(w.each)
	var wanted []bool
	if p.Learn != nil {
		_, length := places(path)
		wanted = p.Learn.mask(length)
	}
	steps := make([]*trinity.Experience, len(path))
	for i, m := range path {
		steps[i] = w.step(m)
	}
	out := join(steps, wanted, w.learnt)
	if out.Info = p.Info; p.Truncated != trinity.NotTruncated {
		out.Truncated = p.Truncated
	}
	if p.Teacher != nil {
		out.TeacherLogprobs = make([]float32, len(out.Tokens))
		for i, own := range out.Mask {
			if own {
				out.TeacherLogprobs[i] = *p.Teacher[i-out.PromptLen]
			}
		}
	}
	return out
}

// step returns a reply behind all that the policy read. The replies before it are asked for first, so
// that each is in the experience of its own call.
func (w *weaver) step(n *node) *trinity.Experience {
	if n.dialogue == nil {
		return n.text
	}
	if n.parent != nil {
		w.step(n.parent)
	}
	if w.steps[n] == nil {
		all := n.dialogue.Steps()
		w.steps[n] = all[len(all)-1]
	}
	return w.steps[n]
}
