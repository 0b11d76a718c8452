package trinity

import (
	"context"
	"encoding/json"
	"fmt"
)

// SamplingParams say how to sample. The zero value asks for one greedy completion.
type SamplingParams struct {
	N                 int     // completions of the prompt; 0 means 1
	Temperature       float32 // 0 is greedy
	TopP              float32 // nucleus in (0, 1]; 0 means 1
	TopK              int     // ≤ 0 means all
	MinP              float32 // drop tokens below MinP × the highest probability
	RepetitionPenalty float32 // 0 means 1
	MaxTokens         int     // tokens to sample; 0 means until the model's length
	MinTokens         int     // no stop before this many tokens
	Stop              []string
	StopTokens        []int32
	IgnoreEOS         bool
	Adapter           string // name of a LoRA adapter; "" is the policy. See BaseAdapter and AdapterLoader
	Seed              uint64 // seed and position determine every random number: same seed and prompt, same tokens
	// OnToken, if set, receives every sampled token of completion i at once. It must neither block nor
	// call the sampler.
	OnToken func(i int, token int32)
}

// Prompt is the text, as tokens, that a sampler continues.
type Prompt struct {
	Tokens []int32
}

// Completion is a sampler's continuation of a prompt.
type Completion struct {
	Tokens       []int32   // [n] ids as sampled, the stop token included
	Logprobs     []float32 // [n] nats, at the sampling temperature, over the whole vocabulary, as in training
	FinishReason string    // "stop" or "length"
	Versions     [2]int64  // oldest and newest weights version that sampled a token
}

// Sampler continues prompts. It is safe for concurrent use, and batches concurrent requests.
type Sampler interface {
	// Sample returns p.N completions. The context's deadline bounds it.
	Sample(ctx context.Context, prompt Prompt, p SamplingParams) ([]Completion, error)
}

// Model is the model as a workflow calls it: it renders messages, samples, and returns experiences
// with the ids and log-probabilities exactly as sampled. A Model belongs to one rollout, whose
// calls are sequential.
type Model struct {
	Sampler        Sampler
	Renderer       Renderer
	Params         SamplingParams // defaults of the taskset, with the seed of the rollout
	MaxPromptLen   int            // tokens; 0 means no limit
	MaxModelLen    int            // tokens; 0 means no limit
	TruncatePrompt bool           // a prompt over MaxPromptLen gives a masked-out experience instead of an error
	ID             ExperienceID   // of the next call; Turn counts up

	turn int
}

// Chat asks for one reply to messages.
func (m *Model) Chat(ctx context.Context, messages []Message, tools json.RawMessage) (*Experience, error) {
	tokens, err := m.Renderer.Render(messages, tools, true)
	if err != nil {
		return nil, err
	}
	return m.Generate(ctx, tokens)
}

// Complete asks for one continuation of plain text.
func (m *Model) Complete(ctx context.Context, text string) (*Experience, error) {
	return m.Generate(ctx, m.Renderer.Encode(text))
}

// Generate asks for one continuation of prompt and returns it as an unscored experience.
func (m *Model) Generate(ctx context.Context, prompt []int32) (*Experience, error) {
	id := m.ID
	id.Turn = m.turn
	m.turn++
	if m.MaxPromptLen > 0 && len(prompt) > m.MaxPromptLen {
		if !m.TruncatePrompt {
			return nil, fmt.Errorf("prompt of %s has %d tokens, over max_prompt_tokens %d", id, len(prompt), m.MaxPromptLen)
		}
		return truncatedPrompt(id, prompt[:m.MaxPromptLen]), nil
	}
	p := m.Params
	p.N = 1
	p.Seed = mix(m.Params.Seed, uint64(id.Turn))
	if len(p.StopTokens) == 0 {
		p.StopTokens = m.Renderer.StopTokens()
	}
	if m.MaxModelLen > 0 {
		room := m.MaxModelLen - len(prompt)
		if room <= 0 {
			return nil, fmt.Errorf("prompt of %s has %d tokens and leaves no room in max_model_len %d", id, len(prompt), m.MaxModelLen)
		}
		if p.MaxTokens == 0 || p.MaxTokens > room {
			p.MaxTokens = room
		}
	}
	out, err := m.Sampler.Sample(ctx, Prompt{Tokens: prompt}, p)
	if err != nil {
		if ctx.Err() != nil { // the caller's deadline, not the engine's fault
			return nil, fmt.Errorf("sampling %s: %w", id, context.Cause(ctx))
		}
		return nil, &EngineError{Err: fmt.Errorf("sampling %s: %w", id, err)}
	}
	if len(out) != 1 {
		return nil, &EngineError{Err: fmt.Errorf("sampler returned %d completions of %s, want 1", len(out), id)}
	}
	return m.record(id, prompt, out[0], p.Temperature), nil
}

func (m *Model) record(id ExperienceID, prompt []int32, c Completion, temperature float32) *Experience {
	n, total := len(prompt), len(prompt)+len(c.Tokens)
	e := &Experience{
		ID: id, PromptLen: n, Temperature: temperature, Versions: c.Versions,
		Tokens: make([]int32, 0, total), Mask: make([]bool, total), Logprobs: make([]float32, total),
		Response: m.Renderer.Decode(c.Tokens),
	}
	e.Tokens = append(append(e.Tokens, prompt...), c.Tokens...)
	for i, lp := range c.Logprobs {
		e.Mask[n+i], e.Logprobs[n+i] = true, lp
	}
	if c.FinishReason == "length" {
		e.Truncated = ResponseTruncated
	}
	return e
}

// truncatedPrompt returns the experience of a rollout that could not start. Training learns nothing
// from it.
func truncatedPrompt(id ExperienceID, prompt []int32) *Experience {
	return &Experience{
		ID: id, Tokens: append([]int32(nil), prompt...), Mask: make([]bool, len(prompt)), PromptLen: len(prompt),
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
