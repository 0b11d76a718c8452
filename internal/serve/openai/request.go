package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/trinity-go/trinity"
	wire "github.com/trinity-go/trinity/internal/wire/openai"
)

// form distinguishes the two endpoints.
type form bool

const (
	chat  form = true
	plain form = false
)

// request is a request that parse has checked. The server refuses keys that ask for something that
// it cannot do. It ignores keys that no dialect of the API has, as clients expect.
type request struct {
	wire.Request
	as       form
	id       string
	call     *Call
	prompts  [][]int32 // of a chat one, nil if it is asked in words
	view     View
	params   trinity.SamplingParams
	most     []int // tokens of a reply to each prompt
	limits   Defaults
	logprobs bool
	likely   int          // likely tokens at each place of a reply
	spent    atomic.Int64 // tokens of replies that best_of has left out
}

// Limits of a request. All requests share the loop that samples, which looks for stop strings at
// every token. OpenAI takes 4 stop strings.
const (
	maxChoices    = 128
	maxStops      = 32
	maxStop       = 256  // bytes of a stop string
	maxStopTokens = 1024 // ids
)

// parse reads a request and refuses what the server cannot do.
func (s *Server) parse(r *http.Request, data []byte, as form) (*request, error) {
	q := &request{as: as, id: newID(as)}
	if err := s.checkKeys(data); err != nil {
		return nil, err
	}
	shown, err := s.takeImages(data)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(shown, &q.Request); err != nil && errors.As(err, new(*json.UnmarshalTypeError)) {
		return nil, NotJSON(err)
	} else if err != nil { // checkKeys has read the JSON, and messages alone check more
		return nil, Bad("messages", "%v", err)
	}
	model, err := s.Model(r, data, q.Model)
	if err != nil {
		return nil, err
	}
	q.limits = model.Defaults()
	q.params = q.limits.SamplingParams
	form, err := q.readForm()
	if err != nil {
		return nil, err
	}
	if err := q.readLogprobs(); err != nil {
		return nil, err
	}
	if err := q.readPrompt(s, model, form.Demanded); err != nil {
		return nil, err
	}
	form.Tools, form.Opens = q.Tools, as == chat && !q.ContinueFinalMessage
	if err := q.readParams(s); err != nil {
		return nil, err
	}
	one, err := q.limits.OneCall("parallel_tool_calls", q.Tools, q.ParallelToolCalls != nil && !*q.ParallelToolCalls)
	if err != nil {
		return nil, err
	}
	if err := q.limits.Constrained(&q.params, form); err != nil {
		return nil, err
	}
	q.view = View{Renderer: s.Renderer, Tools: q.Tools, Stop: q.params.Stop, One: one, Plain: as == plain}
	if as == chat {
		q.view.Renderer = q.call.Reads
	}
	return q, nil
}

// readLogprobs reads whether the client wants log-probabilities of sampled tokens, and of how many of
// the most likely tokens at their places: true and top_logprobs in a chat, the number alone in a plain
// completion.
func (q *request) readLogprobs() error {
	text, top := string(bytes.TrimSpace(q.Logprobs)), q.TopLogprobs
	switch {
	case text == "" || text == "null" || text == "false":
	case q.as == chat && text == "true":
		q.logprobs = true
	case q.as == plain && json.Unmarshal(q.Logprobs, &q.likely) == nil:
		q.logprobs = true
	default:
		return Bad("logprobs", "want true or false in a chat, a number of tokens in a completion")
	}
	switch n := q.likely; {
	case n < 0 || n > trinity.MaxTopLogprobs:
		return Bad("logprobs", "logprobs is %d; want 0 to %d", n, trinity.MaxTopLogprobs)
	case top != 0 && q.as == plain:
		return Bad("top_logprobs", "it belongs to chats: logprobs is the number of tokens in a completion")
	case top != 0 && !q.logprobs:
		return Bad("top_logprobs", "top_logprobs is %d without logprobs: set logprobs to true", top)
	case top < 0 || top > trinity.MaxTopLogprobs:
		return Bad("top_logprobs", "top_logprobs is %d; want 0 to %d", top, trinity.MaxTopLogprobs)
	case q.as == chat:
		q.likely = top
	}
	q.params.TopLogprobs, q.params.ScorePrompt = q.likely, q.Echo && q.logprobs
	return q.readPromptLogprobs()
}

// readPromptLogprobs reads how many likely tokens the client wants at each place of the prompt.
func (q *request) readPromptLogprobs() error {
	switch n := q.PromptLogprobs; {
	case n == nil:
	case !q.limits.Scores:
		return Bad("prompt_logprobs", "the endpoint of a rollout scores no prompts: leave it out")
	case *n < 0 || *n > trinity.MaxTopLogprobs:
		return Bad("prompt_logprobs", "prompt_logprobs is %d; want 0 to %d", *n, trinity.MaxTopLogprobs)
	case q.Stream:
		return Bad("prompt_logprobs", "it is not supported in a stream")
	default:
		q.params.TopLogprobs, q.params.ScorePrompt = max(q.likely, *n), true
	}
	return nil
}

func (q *request) readPrompt(s *Server, model Model, demanded bool) (err error) {
	if q.Tools = noneIfEmpty(q.Tools); string(bytes.TrimSpace(q.ToolChoice)) == `"none"` {
		q.Tools = nil // a model that sees no tools calls none
	}
	if q.as == chat {
		if q.Echo {
			return Bad("echo", "it belongs to completions of plain text: send a prompt to /v1/completions")
		}
		if len(q.Messages) == 0 {
			return Bad("messages", "there are no messages")
		}
		begun, wrong := q.begun()
		_, unread := ReadChat(q.Messages, q.Tools)
		if err := cmp.Or(unread, wrong); err != nil {
			return err
		}
		if q.call, err = s.Call(model, q.Messages, q.Tools, begun); err != nil {
			return err
		}
		q.prompts = [][]int32{q.call.Prompt}
		q.call = q.several([]*Call{q.call})
		if q.call.Prompt == nil {
			return nil
		}
		return s.CheckPrompt("messages", q.call.Prompt)
	}
	if q.ContinueFinalMessage || q.AddGenerationPrompt != nil && !*q.AddGenerationPrompt {
		return Bad("continue_final_message", "it belongs to chats: a completion of plain text always continues it")
	}
	if len(q.Tools) > 0 {
		return Bad("tools", "a completion of plain text calls no tools: send messages to /v1/chat/completions")
	}
	return q.readPrompts(s, model)
}

// readRoles refuses a message whose role no API knows.
func readRoles(messages []trinity.Message) error {
	for i, m := range messages {
		switch m.Role {
		case "developer": // OpenAI's newer name, which templates do not know
			messages[i].Role = "system"
		case "system", "user", "assistant", "tool", "function":
		default:
			return Bad("messages", "messages[%d].role is %q: want system, developer, user, assistant or tool", i, m.Role)
		}
	}
	return nil
}

// begun reports whether the last message is the beginning of the reply.
func (q *request) begun() (bool, error) {
	opens := q.AddGenerationPrompt != nil && *q.AddGenerationPrompt
	switch {
	case !q.ContinueFinalMessage && q.AddGenerationPrompt != nil && !opens:
		return false, Bad("add_generation_prompt", "false needs continue_final_message: true, so that the reply continues the last message")
	case !q.ContinueFinalMessage:
		return false, nil
	case opens:
		return false, Bad("continue_final_message", "it and add_generation_prompt are true: a reply continues the last message or is opened")
	}
	return true, nil
}

// CheckPrompt refuses tokens in the field param that are none, or no ids of the vocabulary.
func (s *Server) CheckPrompt(param string, prompt []int32) error {
	if len(prompt) == 0 {
		return Bad(param, "the prompt has no token")
	}
	for _, id := range prompt {
		if id < 0 || int(id) >= s.VocabSize {
			return Bad(param, "token id %d; want 0 to %d", id, s.VocabSize-1)
		}
	}
	return nil
}

func (q *request) readParams(s *Server) error {
	p := &q.params
	override(&p.N, q.N)
	override(&p.Temperature, q.Temperature)
	override(&p.TopP, q.TopP)
	override(&p.TopK, q.TopK)
	override(&p.MinP, q.MinP)
	override(&p.RepetitionPenalty, q.RepetitionPenalty)
	longest, asked := q.longest()
	override(&p.MaxTokens, asked)
	p.N = max(1, p.N)
	p.MinTokens, p.IgnoreEOS = max(p.MinTokens, q.MinTokens), p.IgnoreEOS || q.IgnoreEOS
	p.StopTokens = append(q.StopTokenIDs, s.Renderer.StopTokens()...)
	switch {
	case q.Seed != nil:
		p.Seed = uint64(*q.Seed)
	case p.Seed == 0:
		p.Seed = rand.Uint64()
	}
	if err := cmp.Or(q.readStop(), q.readPenalties(s.VocabSize)); err != nil {
		return err
	}
	if err := CheckSampling(p, q.TopP); err != nil {
		return err
	}
	switch {
	case p.N > maxChoices || q.N != nil && *q.N < 1:
		return Bad("n", "n is %d; want 1 to %d", *q.N, maxChoices)
	case q.samples() > maxChoices || q.samples()*len(q.prompts) > maxChoices:
		return Bad("prompt", "%d prompts of %d replies each; want at most %d replies", len(q.prompts), q.samples(), maxChoices)
	case q.samples() > p.N && (q.as == chat || !q.limits.Scores):
		return Bad("best_of", "best_of is %d and n is %d: only a completion of a served model chooses among replies", *q.BestOf, p.N)
	case q.samples() > p.N && q.Stream:
		return Bad("best_of", "best_of is %d and n is %d: a stream cannot choose among replies", *q.BestOf, p.N)
	case q.BestOf != nil && *q.BestOf != 0 && *q.BestOf < p.N:
		return Bad("best_of", "best_of is %d and n is %d: it is at least n", *q.BestOf, p.N)
	case q.RepetitionPenalty != nil && *q.RepetitionPenalty <= 0 || p.RepetitionPenalty > 100:
		return Bad("repetition_penalty", "repetition_penalty is %v; want more than 0, up to 100", p.RepetitionPenalty)
	case len(q.StopTokenIDs) > maxStopTokens:
		return Bad("stop_token_ids", "%d token ids; want at most %d", len(q.StopTokenIDs), maxStopTokens)
	case p.MinTokens < 0 || q.MinTokens > 0 && p.MaxTokens > 0 && q.MinTokens > p.MaxTokens:
		return Bad("min_tokens", "min_tokens is %d; want 0 to max_tokens", q.MinTokens)
	case p.MinTokens > 1 && len(p.Stop) > 0:
		return StopsTooEarly("stop", p)
	case asked != nil && *asked == 0 && q.Echo:
		p.MaxTokens = 1 // which a sampler samples at least
	case asked != nil && *asked < 1:
		return Bad(longest, "%s is %d; want at least 1", longest, *asked)
	}
	for _, prompt := range q.prompts {
		fitting := *p
		if err := q.limits.Fit(&fitting, prompt, longest, asked); err != nil {
			return err
		}
		q.most = append(q.most, fitting.MaxTokens)
	}
	p.MaxTokens = q.most[0]
	return nil
}

// maxBias bounds the entries of logit_bias.
const maxBias = 1024

// readPenalties reads what is added to logits.
func (q *request) readPenalties(vocab int) error {
	p := &q.params
	p.PresencePenalty, p.FrequencyPenalty = q.PresencePenalty, q.FrequencyPenalty
	switch {
	case p.PresencePenalty < -2 || p.PresencePenalty > 2:
		return Bad("presence_penalty", "presence_penalty is %v; want -2 to 2", p.PresencePenalty)
	case p.FrequencyPenalty < -2 || p.FrequencyPenalty > 2:
		return Bad("frequency_penalty", "frequency_penalty is %v; want -2 to 2", p.FrequencyPenalty)
	case len(q.LogitBias) > maxBias:
		return Bad("logit_bias", "logit_bias has %d tokens; want at most %d", len(q.LogitBias), maxBias)
	}
	p.LogitBias = nil
	for key, bias := range q.LogitBias {
		switch id, err := strconv.ParseInt(key, 10, 32); {
		case err != nil || id < 0 || id >= int64(vocab) || strconv.FormatInt(id, 10) != key: // "05" would be a second bias of 5
			return Bad("logit_bias", "logit_bias has the key %q; want a token id, 0 to %d", key[:min(len(key), maxShown)], vocab-1)
		case bias < -100 || bias > 100:
			return Bad("logit_bias", "logit_bias of token %s is %v; want -100 to 100", key, bias)
		default:
			if p.LogitBias == nil {
				p.LogitBias = map[int32]float32{}
			}
			p.LogitBias[int32(id)] = bias
		}
	}
	return nil
}

// samples returns how many replies to a prompt are sampled.
func (q *request) samples() int {
	if q.BestOf == nil {
		return q.params.N
	}
	return max(*q.BestOf, q.params.N)
}

// CheckSampling refuses sampling parameters that are out of range, of which the request asks for topP.
// They must be in range also where a rollout uses those of its taskset.
func CheckSampling(p *trinity.SamplingParams, topP *float32) error {
	switch {
	case p.Temperature != 0 && !(p.Temperature >= 1e-4 && p.Temperature <= 10):
		return Bad("temperature", "temperature is %v; want 0, or 0.0001 to 10", p.Temperature)
	case p.MinP < 0 || p.MinP > 1:
		return Bad("min_p", "min_p is %v; want 0 to 1", p.MinP)
	case p.TopK < -1:
		return Bad("top_k", "top_k is %d; want 1 or more, or -1 for all", p.TopK)
	case topP != nil && *topP <= 0 || p.TopP < 0 || p.TopP > 1:
		return Bad("top_p", "top_p is %v; want more than 0, up to 1", p.TopP)
	}
	return nil
}

// Fit limits a reply to the room that the prompt leaves. It returns an error if there is no room, or
// if the request asks for more: asked tokens by its field key. asked is nil if it asks for none.
func (d Defaults) Fit(p *trinity.SamplingParams, prompt []int32, key string, asked *int) error {
	if prompt == nil {
		return nil
	}
	if d.MaxLen == 0 {
		if p.MaxTokens == 0 {
			return Bad(key, "the model has no maximum length: set %s", key)
		}
		return nil
	}
	room := d.MaxLen - len(prompt)
	if room <= 0 {
		return TooLong("", "the prompt has %d tokens, which leaves no room in the %d of the model's length", len(prompt), d.MaxLen)
	}
	if asked != nil && *asked > room && !d.Cut {
		return TooLong(key, "the prompt has %d tokens and %s is %d, together more than the %d tokens of the model's length; "+
			"ask for at most %d", len(prompt), key, *asked, d.MaxLen, room)
	}
	if p.MaxTokens == 0 || p.MaxTokens > room {
		p.MaxTokens = room
	}
	return nil
}

// CodeTooLong is the code of [TooLong].
const CodeTooLong = "context_length_exceeded"

// TooLong returns the problem of a request that does not fit the model's length.
func TooLong(param, format string, args ...any) error {
	return &Problem{Status: http.StatusBadRequest, Code: CodeTooLong, Param: param, Message: fmt.Sprintf(format, args...)}
}

// longest returns the maximum length of a reply that the request sets, and the key that sets it.
func (q *request) longest() (key string, tokens *int) {
	if q.MaxCompletionTokens != nil {
		return "max_completion_tokens", q.MaxCompletionTokens
	}
	return "max_tokens", q.MaxTokens
}

// readStop reads one stop string or a list of them.
func (q *request) readStop() error {
	if len(q.Stop) == 0 {
		return nil
	}
	var one *string
	if json.Unmarshal(q.Stop, &one) == nil {
		if one != nil {
			q.params.Stop = []string{*one}
		}
	} else if json.Unmarshal(q.Stop, &q.params.Stop) != nil {
		return Bad("stop", "want a text or a list of texts")
	}
	if n := len(q.params.Stop); n > maxStops {
		return Bad("stop", "%d texts; want at most %d", n, maxStops)
	}
	for _, stop := range q.params.Stop {
		switch {
		case stop == "":
			return Bad("stop", "an empty text would end every reply at once")
		case len(stop) > maxStop:
			return Bad("stop", "a text of %d bytes; want at most %d", len(stop), maxStop)
		}
	}
	return nil
}

// StopsTooEarly returns the problem of a request with stop strings in the field key, and with at least
// p.MinTokens tokens. A stop string among the first tokens would end the text that the client gets, and
// not the reply that the policy is trained on.
func StopsTooEarly(key string, p *trinity.SamplingParams) error {
	return Bad(key, "%s is not supported for replies of at least %d tokens: leave it or min_tokens (in a run min_response_tokens) out", key,
		p.MinTokens)
}

func override[T any](dst *T, src *T) {
	if src != nil {
		*dst = *src
	}
}
