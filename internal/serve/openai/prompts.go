package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
)

// readPrompts reads the prompts of a completion of plain text: a text or a list of token ids, or a list
// of those.
func (q *request) readPrompts(s *Server, model Model) error {
	var calls []*Call
	if text := string(bytes.TrimSpace(q.Prompt)); text == "" || text == "null" {
		return Bad("prompt", "there is no prompt")
	}
	for _, one := range listed(q.Prompt) {
		var text string
		var prompt []int32
		if json.Unmarshal(one, &text) == nil {
			prompt = s.Renderer.Encode(text)
		} else if json.Unmarshal(one, &prompt) != nil {
			return Bad("prompt", "want a text, a list of token ids, or a list of texts or of such lists")
		}
		if err := s.CheckPrompt("prompt", prompt); err != nil {
			return err
		}
		call, err := model.Text(prompt)
		if err != nil {
			return err
		}
		q.prompts, calls = append(q.prompts, prompt), append(calls, call)
	}
	switch n := len(q.prompts); {
	case n == 0:
		return Bad("prompt", "there is no prompt")
	case n > 1 && !q.limits.Scores:
		return Bad("prompt", "the endpoint of a rollout answers one prompt a request, and the list has %d", n)
	case n > 1 && q.ReturnTokenIDs:
		return Bad("return_token_ids", "it is not supported for a list of prompts")
	case q.Echo && !q.limits.Scores:
		return Bad("echo", "the endpoint of a rollout echoes no prompts: leave it out")
	}
	q.call = q.several(calls)
	return nil
}

// listed returns the elements of a list of prompts, or the only prompt.
func listed(prompt json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(prompt, &list) != nil {
		return []json.RawMessage{prompt}
	}
	if len(list) > 0 && !bytes.ContainsAny(list[0][:1], "\"[") {
		return []json.RawMessage{prompt} // of token ids
	}
	return list
}

// several returns the call that makes all calls, one for each prompt.
func (q *request) several(calls []*Call) *Call {
	whole := *calls[0]
	whole.others = len(calls) - 1
	whole.Sample = func(ctx context.Context, p trinity.SamplingParams) ([]Reply, error) {
		replies := make([][]Reply, len(calls))
		eg, ctx := errgroup.WithContext(ctx)
		for i, call := range calls {
			eg.Go(func() (err error) {
				replies[i], err = q.sample(ctx, call, i, p)
				return err
			})
		}
		err := eg.Wait()
		var out []Reply
		for _, r := range replies {
			out = append(out, r...)
		}
		return out, err
	}
	return &whole
}

// sample samples the replies to prompt i.
func (q *request) sample(ctx context.Context, call *Call, i int, p trinity.SamplingParams) ([]Reply, error) {
	p.MaxTokens = q.most[i]
	if i > 0 && q.Seed == nil { // equal prompts have different replies
		p.Seed = trinity.Seed(p.Seed, 0, "", i)
	}
	_, asked := q.longest()
	nothing := asked != nil && *asked == 0
	switch told := p.OnToken; {
	case nothing:
		p.OnToken = nil
	case told != nil:
		p.OnToken = func(choice int, s trinity.Sampled) { told(i*p.N+choice, s) }
	}
	p.N = q.samples()
	replies, err := call.Sample(ctx, p)
	if err != nil {
		return nil, err
	}
	for j := range replies {
		r := &replies[j]
		if p.ScorePrompt && len(r.Prompt.Logprobs) != len(q.prompts[i])-1 {
			what, key := "echo or logprobs", "echo"
			if q.PromptLogprobs != nil {
				what, key = "prompt_logprobs", "prompt_logprobs"
			}
			return nil, Bad(key, "this engine computes no log-probabilities of prompts: leave out %s", what)
		}
		if nothing {
			r.Tokens, r.Logprobs, r.TopLogprobs, r.FinishReason = nil, nil, nil, "length"
		}
	}
	return q.best(replies), nil
}

// best returns the n replies whose tokens are the most likely in the mean, if more were sampled.
func (q *request) best(replies []Reply) []Reply {
	n := q.params.N
	if n >= len(replies) {
		return replies
	}
	mean := func(r Reply) (sum float64) {
		for _, lp := range r.Logprobs {
			sum += float64(lp)
		}
		return sum / float64(max(1, len(r.Logprobs)))
	}
	slices.SortStableFunc(replies, func(a, b Reply) int { return cmp.Compare(mean(b), mean(a)) })
	for _, r := range replies[n:] {
		q.spent.Add(int64(len(r.Tokens)))
	}
	return replies[:n]
}

// echoed returns the text of a choice's prompt, if the client wants it.
func (q *request) echoed(choice int) string {
	if !q.Echo {
		return ""
	}
	return q.view.Renderer.Decode(q.prompts[choice/q.params.N])
}

// viewOf returns how the client sees a choice.
func (q *request) viewOf(choice int) View {
	v := q.view
	if q.as == plain {
		prompt := q.prompts[choice/q.params.N]
		v.Before = prompt[max(0, len(prompt)-window):]
	}
	return v
}
