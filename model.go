package trinity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

// BaseAdapter is the SamplingParams.Adapter that samples the model without any adapter.
const BaseAdapter = "base"

// SamplingParams say how to sample. The zero value asks for one greedy completion.
type SamplingParams struct {
	N                 int     // completions of the prompt; 0 means 1
	Temperature       float32 // 0 is greedy
	TopP              float32 // nucleus in (0, 1]; 0 means 1
	TopK              int     // ≤ 0 means all
	MinP              float32 // drop tokens below MinP × the highest probability
	RepetitionPenalty float32 // 0 means 1
	// PresencePenalty and FrequencyPenalty are subtracted from the logit of a token that the completion
	// has, FrequencyPenalty as often as it has it; -2 to 2. LogitBias is added to logits; -100 to 100.
	PresencePenalty, FrequencyPenalty float32
	LogitBias                         map[int32]float32
	// Constraint says which tokens may be drawn; each completion begins with a fork of it. Logprobs stay
	// those of the whole distribution.
	Constraint  Constraint
	MaxTokens   int // tokens to sample; 0 means until the model's length
	MinTokens   int // no stop before this many tokens
	Stop        []string
	StopTokens  []int32
	IgnoreEOS   bool
	Adapter     string // name of a LoRA adapter; "" is the policy. See BaseAdapter and AdapterLoader
	Seed        uint64 // seed and position determine every random number: same seed and prompt, same tokens
	TopLogprobs int    // most likely tokens to return at each place; at most MaxTopLogprobs
	// ScorePrompt asks for the log-probabilities of the prompt's own tokens, and for TopLogprobs at their
	// places. A sampler that cannot score returns none.
	ScorePrompt bool
	// ScoreFrom leaves the first tokens out that ScorePrompt asks for: what the sampler has computed of
	// them before need not be computed again.
	ScoreFrom int
	// PromptTargets [(prompt-1)·K] are further ids to score where ScorePrompt scores; negative: none.
	PromptTargets []int32
	// PromptDraws is how many tokens to draw, at the temperature, at each place that ScorePrompt scores.
	PromptDraws int
	// Untrained says that nothing trains on Completion.Logprobs, so a sampler may return those of a
	// distribution that TopP and the like have changed. Without it a [Model] refuses them.
	Untrained bool
	// Hold, if set, says that a later call may continue this one: until the channel is closed, the
	// sampler keeps what it has computed for this call before what it has computed for calls without.
	Hold <-chan struct{}
	// OnToken, if set, receives every sampled token of completion i at once. It must neither block nor
	// call the sampler.
	OnToken func(i int, s Sampled)
	// OnSampled, if set, receives sampled tokens as soon as the sampler knows them, which may be at the
	// end. Unlike OnToken, it lets a sampler repeat a request whose answer was lost before. It must
	// neither block nor call the sampler.
	OnSampled func(i int, s Sampled)
}

// Changed names the first parameter, with its value, that changes the distribution of the sampled tokens;
// "" if there is none. A temperature changes it too, but in the way that training computes.
func (p *SamplingParams) Changed() string {
	switch {
	case p.TopP != 0 && p.TopP != 1:
		return fmt.Sprintf("top_p %v", p.TopP)
	case p.TopK > 0:
		return fmt.Sprintf("top_k %d", p.TopK)
	case p.MinP != 0:
		return fmt.Sprintf("min_p %v", p.MinP)
	case p.MinTokens > 1:
		return fmt.Sprintf("min_tokens %d", p.MinTokens)
	}
	return p.constraint()
}

// constraint names the first parameter that changes logits, for Completion.Changed.
func (p *SamplingParams) constraint() string {
	switch {
	case p.RepetitionPenalty != 0 && p.RepetitionPenalty != 1:
		return fmt.Sprintf("repetition_penalty %v", p.RepetitionPenalty)
	case p.PresencePenalty != 0:
		return fmt.Sprintf("presence_penalty %v", p.PresencePenalty)
	case p.FrequencyPenalty != 0:
		return fmt.Sprintf("frequency_penalty %v", p.FrequencyPenalty)
	case len(p.LogitBias) > 0:
		return fmt.Sprintf("logit_bias of %d tokens", len(p.LogitBias))
	case p.Constraint != nil:
		return "a constraint of the reply's text"
	}
	return ""
}

// Constrains reports whether a penalty, a bias or a constraint changes logits: what a sampler returns
// as Completion.Changed.
func (p *SamplingParams) Constrains() bool { return p.constraint() != "" }

// AddOnSampled makes OnSampled call also too.
func (p *SamplingParams) AddOnSampled(also func(i int, s Sampled)) {
	told := p.OnSampled
	p.OnSampled = func(i int, s Sampled) {
		also(i, s)
		if told != nil {
			told(i, s)
		}
	}
}

// Tell calls OnSampled, if it is set, with a token of completion i.
func (p *SamplingParams) Tell(i int, s Sampled) {
	if p.OnSampled != nil {
		p.OnSampled(i, s)
	}
}

// Sampled is a sampled token, with what its completion says of it.
type Sampled struct {
	Token   int32
	Logprob float32        // as in Completion.Logprobs
	Top     []TokenLogprob // as in Completion.TopLogprobs
}

// Constraint is a place in a text that must have a form. One goroutine at a time may use it; forks are
// independent.
type Constraint interface {
	// Mask sets the bit of each token that may come next, and clears all others. A token that ends the
	// text may come only where the form is complete.
	Mask(bits []uint64)
	// Accept moves behind a token. It is an error if the token may not come here.
	Accept(token int32) error
	// Fork returns a copy at the same place.
	Fork() Constraint
}

// MaxTopLogprobs bounds SamplingParams.TopLogprobs.
const MaxTopLogprobs = 20

// TokenLogprob is a token with its log-probability in nats.
type TokenLogprob struct {
	Token   int32
	Logprob float32
}

// Prompt is the text, as tokens, that a sampler continues.
type Prompt struct {
	Tokens []int32
	// Messages and Tools are the chat that Tokens were rendered from, for a sampler that gives [Completion].Words; nil for
	// tokens of another origin.
	Messages []Message
	Tools    json.RawMessage
	// Images have their places in Tokens, sorted. A sampler that computes text alone returns an error if there are any.
	Images []PromptImage
	// Experts are those of the first tokens, as an earlier completion had them. A sampler that returns experts returns these
	// again, and adds those of the other tokens.
	Experts []byte
}

// PromptImage is an image of a prompt, with its file.
type PromptImage struct {
	Image
	PNG []byte
}

// images returns the images of a prompt without their files.
func (p *Prompt) images() (all []Image) {
	for _, image := range p.Images {
		all = append(all, image.Image)
	}
	return all
}

// Completion is a sampler's continuation of a prompt.
type Completion struct {
	Tokens   []int32   // [n] ids as sampled, the stop token included
	Logprobs []float32 // [n] nats, at the sampling temperature, over the whole vocabulary, as in training
	// TopLogprobs [n] are the most likely tokens at the place of each token, the most likely first, equal
	// ones by id, under the distribution of Logprobs; nil unless SamplingParams asks for them.
	TopLogprobs  [][]TokenLogprob
	Prompt       PromptScores
	FinishReason string   // "stop" or "length"
	Changed      bool     // drawn from a distribution that a penalty, a bias or a constraint has changed: nothing trains on it
	Versions     [2]int64 // oldest and newest weights version that sampled a token, or computed what the sampler reused for it
	Reused       int      // tokens of the prompt that the sampler had computed before, for this call's group or another call
	// Experts are those of the prompt and the completion, as Experience.Experts; nil unless the sampler returns them.
	Experts []byte
	// Words are the reply of a model behind an API of text, in place of Tokens and Logprobs. Versions are then -1, and
	// Source is that of the experience.
	Words  *Message
	Source string
}

// At returns token i of the completion.
func (c *Completion) At(i int) Sampled {
	s := Sampled{Token: c.Tokens[i]}
	if i < len(c.Logprobs) {
		s.Logprob = c.Logprobs[i]
	}
	if i < len(c.TopLogprobs) {
		s.Top = c.TopLogprobs[i]
	}
	return s
}

// PromptScores are what SamplingParams.ScorePrompt asks for: at [i] that of the prompt's token i+1, at
// temperature 1. Places before ScoreFrom have NaN and empty lists.
type PromptScores struct {
	Logprobs    []float32 // [prompt-1] nats, over the whole vocabulary
	TopLogprobs [][]TokenLogprob
	Targets     []float32 // [(prompt-1)·K] nats, of SamplingParams.PromptTargets; NaN where there is none
	// Draws are SamplingParams.PromptDraws tokens at each place, drawn independently of each other and
	// of the completions.
	Draws [][]TokenLogprob
}

// Sampler continues prompts. It is safe for concurrent use, and batches concurrent requests.
type Sampler interface {
	// Sample returns p.N completions. The context's deadline bounds it.
	Sample(ctx context.Context, prompt Prompt, p SamplingParams) ([]Completion, error)
}

// Model is the model as a workflow calls it: it renders messages, samples, and returns experiences
// with the ids and log-probabilities exactly as sampled. A Model belongs to one rollout, whose
// goroutines may all call it.
type Model struct {
	Sampler        Sampler
	Renderer       Renderer
	Params         SamplingParams // defaults of the taskset, with the seed of the rollout
	MaxPromptLen   int            // tokens; 0 means no limit
	MaxModelLen    int            // tokens; 0 means no limit
	MaxTokens      int            // to sample in all calls; 0 means no limit. Calls at once may each take what is left
	TruncatePrompt bool           // a prompt over MaxPromptLen gives a masked-out experience instead of an error
	FailOnRewrite  bool           // a template that rewrites earlier turns is an error instead of a new sequence
	ID             ExperienceID   // of the rollout; a call adds its turn, in the order in which calls begin
	// Ended is closed when the rollout ends. Calls that a later one may continue have it as their Hold.
	Ended <-chan struct{}

	calls calls
}

// Chat asks for one reply to messages.
func (m *Model) Chat(ctx context.Context, messages []Message, tools json.RawMessage) (*Experience, error) {
	tokens, err := m.Renderer.Render(messages, tools, true)
	if err != nil {
		return nil, err
	}
	prompt, err := PromptOf(m.Renderer, tokens, messages)
	if err != nil {
		return nil, err
	}
	prompt.Messages, prompt.Tools = messages, tools
	e, _, err := m.sample(ctx, prompt)
	return e, err
}

// Complete asks for one continuation of plain text.
func (m *Model) Complete(ctx context.Context, text string) (*Experience, error) {
	return m.Generate(ctx, m.Renderer.Encode(text))
}

// Generate asks for one continuation of prompt and returns it as an unscored experience.
func (m *Model) Generate(ctx context.Context, prompt []int32, options ...CallOption) (*Experience, error) {
	e, _, err := m.Sample(ctx, prompt, options...)
	return e, err
}

// Sample is Generate that also returns the completion as the sampler gave it. A truncated prompt has
// none.
func (m *Model) Sample(ctx context.Context, prompt []int32, options ...CallOption) (*Experience, Completion, error) {
	return m.sample(ctx, Prompt{Tokens: prompt}, options...)
}

func (m *Model) sample(ctx context.Context, prompt Prompt, options ...CallOption) (*Experience, Completion, error) {
	tokens := prompt.Tokens
	if m.MaxPromptLen > 0 && len(tokens) > m.MaxPromptLen {
		if err := m.refusePrompt(tokens); err != nil {
			return nil, Completion{}, err
		}
		turn, _ := m.calls.begin(m.Params.Seed, tokens)
		return m.truncatedPrompt(turn, tokens, prompt.images()), Completion{}, nil
	}
	c, err := m.call(ctx, prompt, options...)
	if errors.Is(err, ErrNoRoom) && !errors.Is(err, ErrNoTokens) {
		return nil, Completion{}, m.noRoom(tokens)
	}
	if err != nil {
		return nil, Completion{}, err
	}
	return m.record(tokens, prompt.images(), c), c.Completion, nil
}

// Continue adds to e, an experience of one call of m, tokens that training does not learn, and then what
// the policy continues with at the same temperature. If the error is ErrNoRoom, e is as before.
func (m *Model) Continue(ctx context.Context, e *Experience, between []int32, options ...CallOption) error {
	files, err := filesOf(m.Renderer, e.Images)
	if err != nil {
		return err
	}
	asked := Prompt{Tokens: slices.Concat(e.Tokens, between), Images: files, Experts: e.Experts}
	c, err := m.call(ctx, asked, append(slices.Clip(options), m.hold)...)
	if err != nil {
		return err
	}
	e.extend(between, c.Completion, true)
	e.Response = m.Renderer.Decode(e.Tokens[e.PromptLen:])
	return nil
}

// called is the answer to a call.
type called struct {
	Completion
	turn        int
	temperature float32
	ended       bool   // with a token that ends a reply
	mask        []bool // [n] of the tokens that training learns, if the template has written them; nil is all
}

// call samples one continuation of prompt. The error is ErrNoRoom if the prompt fills MaxModelLen, or
// if the calls before have sampled MaxTokens.
func (m *Model) call(ctx context.Context, asked Prompt, options ...CallOption) (called, error) {
	p, prompt := m.Params, asked.Tokens
	for _, o := range options {
		o(&p)
	}
	if changed := p.Changed(); changed != "" && !p.Untrained {
		return called{}, fmt.Errorf("%s for tokens that are trained on: leave it out, since training takes them for samples "+
			"of the whole distribution", changed)
	}
	id := m.ID
	p.N = 1
	id.Turn, p.Seed = m.calls.begin(p.Seed, prompt)
	if len(p.StopTokens) == 0 {
		p.StopTokens = m.Renderer.StopTokens()
	}
	if m.MaxModelLen > 0 {
		room := m.MaxModelLen - len(prompt)
		if room <= 0 {
			return called{}, ErrNoRoom
		}
		if p.MaxTokens == 0 || p.MaxTokens > room {
			p.MaxTokens = room
		}
	}
	if m.MaxTokens > 0 {
		left := m.MaxTokens - m.SampledTokens()
		if left <= 0 {
			return called{}, ErrNoTokens
		}
		if p.MaxTokens == 0 || p.MaxTokens > left {
			p.MaxTokens = left
		}
	}
	var announced atomic.Int64
	p.AddOnSampled(func(int, Sampled) { announced.Add(1) })
	out, err := m.Sampler.Sample(ctx, asked, p)
	if err != nil {
		m.calls.lose(int(announced.Load()))
		if ctx.Err() != nil { // the caller's deadline, not the engine's fault
			return called{}, fmt.Errorf("sampling %s: %w", id, context.Cause(ctx))
		}
		if own := (*RolloutError)(nil); errors.As(err, &own) { // a deadline of the call
			return called{}, fmt.Errorf("sampling %s: %w", id, err)
		}
		return called{}, &EngineError{Err: fmt.Errorf("sampling %s: %w", id, err)}
	}
	if len(out) != 1 {
		return called{}, &EngineError{Err: fmt.Errorf("sampler returned %d completions of %s, want 1", len(out), id)}
	}
	if out[0].Changed && !p.Untrained {
		return called{}, &EngineError{Err: fmt.Errorf("the sampler changed the distribution of tokens of %s that are trained on", id)}
	}
	var mask []bool
	if out[0].Words != nil {
		if mask, err = m.write(asked, &out[0]); err != nil {
			return called{}, &RolloutError{Kind: FailedModel, Err: fmt.Errorf("sampling %s: %w", id, err)}
		}
	}
	tokens := out[0].Tokens
	m.calls.answered(id.Turn, len(prompt), &out[0])
	if err := checkReply(m.Renderer, tokens); err != nil {
		return called{}, &RolloutError{Kind: FailedModel, Err: fmt.Errorf("sampling %s: %w", id, err)}
	}
	ended := len(tokens) > 0 && slices.Contains(m.Renderer.StopTokens(), tokens[len(tokens)-1])
	return called{out[0], id.Turn, p.Temperature, ended, mask}, nil
}

// Logprobs returns the log-probability of each token after the first, in nats at temperature 1, under the model as it is
// now. It returns nil if the sampler cannot score given tokens. The error is ErrNoRoom if the tokens fill MaxModelLen.
func (m *Model) Logprobs(ctx context.Context, tokens []int32) ([]float32, error) {
	if m.MaxModelLen > 0 && len(tokens) >= m.MaxModelLen {
		return nil, ErrNoRoom
	}
	p := SamplingParams{N: 1, MaxTokens: 1, Adapter: m.Params.Adapter, ScorePrompt: true, Untrained: true}
	out, err := m.Sampler.Sample(ctx, Prompt{Tokens: tokens}, p)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("scoring tokens of %s: %w", m.ID, context.Cause(ctx))
	case err != nil && KindOf(err, "") != "": // a deadline of the call
		return nil, fmt.Errorf("scoring tokens of %s: %w", m.ID, err)
	case err != nil:
		return nil, &EngineError{Err: fmt.Errorf("scoring tokens of %s: %w", m.ID, err)}
	case len(out) != 1 || len(out[0].Prompt.Logprobs) != len(tokens)-1:
		return nil, nil
	}
	return out[0].Prompt.Logprobs, nil
}

// refusePrompt returns an error, unless a prompt over MaxPromptLen is to be truncated.
func (m *Model) refusePrompt(prompt []int32) error {
	if m.TruncatePrompt {
		return nil
	}
	return fmt.Errorf("prompt of %s has %d tokens, over max_prompt_tokens %d", m.ID, len(prompt), m.MaxPromptLen)
}

// SampledTokens returns the tokens of the answers to calls so far.
func (m *Model) SampledTokens() int {
	m.calls.mu.Lock()
	defer m.calls.mu.Unlock()
	return m.calls.sampled
}

// LostTokens returns the tokens that were sampled so far for calls that gave no answer, because they
// were cancelled, their deadline passed or the sampler failed.
func (m *Model) LostTokens() int {
	m.calls.mu.Lock()
	defer m.calls.mu.Unlock()
	return m.calls.lost
}

// PrefillReuse returns the share of the prompts of all calls but the first, in tokens, that the sampler
// had computed before. It returns false if there was no later call.
func (m *Model) PrefillReuse() (share float64, ok bool) {
	m.calls.mu.Lock()
	defer m.calls.mu.Unlock()
	return float64(m.calls.reused) / float64(max(1, m.calls.prompts)), m.calls.prompts > 0
}

// hold is the [CallOption] of a call that a later one may continue.
func (m *Model) hold(p *SamplingParams) { p.Hold = m.Ended }

// record returns the experience of one call.
func (m *Model) record(prompt []int32, images []Image, c called) *Experience {
	e := m.begin(c.turn, prompt, images, c)
	e.extend(nil, c.Completion, true)
	e.Response = m.Renderer.Decode(c.Tokens)
	if c.Words != nil {
		e.learnWords(&c)
	}
	return e
}

// begin returns an experience that holds the prompt of a call.
func (m *Model) begin(turn int, prompt []int32, images []Image, c called) *Experience {
	e := &Experience{ID: m.ID, PromptLen: len(prompt), Images: slices.Clone(images), Temperature: c.temperature, Versions: c.Versions}
	e.ID.Turn = turn
	e.append(prompt)
	return e
}

// append adds tokens that training does not learn.
func (e *Experience) append(tokens []int32) {
	e.Tokens = append(e.Tokens, tokens...)
	e.Mask = append(e.Mask, make([]bool, len(tokens))...)
	e.Logprobs = append(e.Logprobs, make([]float32, len(tokens))...)
}

// extend adds what lies between two replies, and a reply. Training learns the reply if learnt is set.
func (e *Experience) extend(between []int32, c Completion, learnt bool) {
	e.append(between)
	at := len(e.Tokens)
	e.append(c.Tokens)
	e.EnvironmentLen += len(between)
	e.Experts = c.Experts
	if !learnt {
		e.EnvironmentLen += len(c.Tokens)
		return
	}
	for i, lp := range c.Logprobs {
		e.Mask[at+i], e.Logprobs[at+i] = true, lp
	}
	e.Versions = [2]int64{min(e.Versions[0], c.Versions[0]), max(e.Versions[1], c.Versions[1])}
	if e.Truncated = NotTruncated; c.FinishReason == "length" {
		e.Truncated = ResponseTruncated
	}
}

func (m *Model) noRoom(prompt []int32) error {
	return fmt.Errorf("prompt of %s has %d tokens and leaves no room in max_model_len %d", m.ID, len(prompt), m.MaxModelLen)
}

// truncatedPrompt returns the experience of a rollout that could not start. Training learns nothing
// from it. An image that does not fit is left out whole.
func (m *Model) truncatedPrompt(turn int, prompt []int32, images []Image) *Experience {
	id := m.ID
	id.Turn = turn
	prompt = prompt[:m.MaxPromptLen]
	if i := slices.IndexFunc(images, func(x Image) bool { return x.At+x.Len > len(prompt) }); i >= 0 {
		prompt, images = prompt[:min(len(prompt), images[i].At)], images[:i]
	}
	return &Experience{
		ID: id, Tokens: slices.Clone(prompt), Mask: make([]bool, len(prompt)), PromptLen: len(prompt), Images: slices.Clone(images),
		Truncated: PromptTruncated, Reward: InvalidReward("prompt longer than max_prompt_tokens"),
	}
}

// mix is one round of SplitMix64 (Steele, Lea & Flood 2014): a counter-based generator of seeds.
func mix(seed, n uint64) uint64 {
	z := seed + (n+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Seed returns the seed of one rollout. It depends on the run's seed and the rollout's place, so
// that randomness does not depend on scheduling.
func Seed(run uint64, step int64, task string, rollout int) uint64 {
	s := mix(run, uint64(step))
	for _, b := range []byte(task) {
		s = mix(s, uint64(b))
	}
	return mix(s, uint64(rollout))
}
