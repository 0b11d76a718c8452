package openai

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/trinity-go/trinity"
	wire "github.com/trinity-go/trinity/internal/wire/openai"
)

// logged is how much a client has of the log-probabilities of a choice.
type logged struct {
	tokens int // of the reply
	offset int // of the last of them in the text
}

// logprobsOf returns the log-probabilities of the sampled tokens of a choice that the client does not have,
// including the token that ended the reply. Before the first stand those of an echoed prompt, whose first
// token has none.
func (q *request) logprobsOf(s *Server, choice int, c *trinity.Completion, has *logged) *wire.Logprobs {
	from := has.tokens
	has.tokens = len(c.Tokens)
	if q.as == chat {
		return &wire.Logprobs{Content: TokenLogprobs(c, from, q.likely, func(token int32) string { return q.textOf(s, token) })}
	}
	l, tokens := &wire.Logprobs{}, c.Tokens
	first := from
	if q.Echo {
		prompt := q.prompts[choice/q.params.N]
		tokens = slices.Concat(prompt, tokens)
		if first += len(prompt); from == 0 {
			first = 0
			q.append(s, l, prompt[0], nil, nil)
			for i, token := range prompt[1:] {
				q.append(s, l, token, &c.Prompt.Logprobs[i], at(c.Prompt.TopLogprobs, i, q.likely))
			}
		}
	}
	for i := from; i < len(c.Tokens); i++ {
		q.append(s, l, c.Tokens[i], &c.Logprobs[i], at(c.TopLogprobs, i, q.likely))
	}
	if l.TextOffset = offsets(s.Renderer, tokens, first, has.offset); len(l.TextOffset) > 0 {
		has.offset = l.TextOffset[len(l.TextOffset)-1]
	}
	return l
}

// at returns up to n likely tokens at a place; nil if the request asked for none.
func at(top [][]trinity.TokenLogprob, i, n int) []trinity.TokenLogprob {
	if i < len(top) {
		return top[i][:min(n, len(top[i]))]
	}
	return nil
}

// TokenLogprobs returns the log-probabilities of the tokens of a reply from a place on, and of up to likely other tokens there.
func TokenLogprobs(c *trinity.Completion, from, likely int, text func(int32) string) (all []wire.TokenLogprob) {
	for i := from; i < len(c.Tokens); i++ {
		most := []wire.TokenLogprob{}
		for _, x := range at(c.TopLogprobs, i, likely) {
			most = append(most, wire.TokenLogprob{Token: text(x.Token), Logprob: x.Logprob})
		}
		all = append(all, wire.TokenLogprob{Token: text(c.Tokens[i]), Logprob: c.Logprobs[i], TopLogprobs: most})
	}
	return all
}

// append appends a token of a plain completion. logprob is nil if it has none.
func (q *request) append(s *Server, l *wire.Logprobs, token int32, logprob *float32, top []trinity.TokenLogprob) {
	text := q.textOf(s, token)
	l.Tokens, l.TokenLogprobs = append(l.Tokens, text), append(l.TokenLogprobs, logprob)
	if q.likely == 0 {
		return
	}
	var most map[string]float32
	if logprob != nil {
		most = map[string]float32{}
		for _, x := range slices.Backward(top) { // of several tokens with one text the most likely counts
			most[q.textOf(s, x.Token)] = x.Logprob
		}
		if _, known := most[text]; !known {
			most[text] = *logprob
		}
	}
	l.TopLogprobs = append(l.TopLogprobs, most)
}

// promptLogprobs returns the log-probabilities of a prompt's tokens as vLLM writes them.
func (q *request) promptLogprobs(s *Server, prompt []int32, scores trinity.PromptScores) []map[string]wire.PromptLogprob {
	all := []map[string]wire.PromptLogprob{nil}
	for i, token := range prompt[1:] {
		of := map[string]wire.PromptLogprob{}
		add := func(token int32, logprob float32, rank *int) {
			of[strconv.Itoa(int(token))] = wire.PromptLogprob{
				DecodedToken: s.Renderer.Decode([]int32{token}), Logprob: &logprob, Rank: rank,
			}
		}
		add(token, scores.Logprobs[i], nil)
		for rank, x := range at(scores.TopLogprobs, i, q.params.TopLogprobs) {
			if rank < *q.PromptLogprobs || x.Token == token {
				add(x.Token, x.Logprob, new(rank+1))
			}
		}
		all = append(all, of)
	}
	return all
}

// window is the number of tokens before another one that its text depends on: the space before a word,
// and the bytes of one character.
const window = 4

// offsets returns for each token from first on the characters of the text before it. before is that of the
// token before them. Tokens that are parts of one character begin where it begins.
func offsets(r trinity.Renderer, tokens []int32, first, before int) []int {
	out := make([]int, 0, len(tokens)-first)
	if first == 0 && len(tokens) > 0 {
		out, first = append(out, 0), 1
	}
	length := func(tokens []int32) int {
		return utf8.RuneCountInString(strings.TrimRight(r.Decode(tokens), "\uFFFD"))
	}
	for i := first; i < len(tokens); i++ {
		from := max(0, i-1-window)
		before += max(0, length(tokens[from:i])-length(tokens[from:i-1]))
		out = append(out, before)
	}
	return out
}

// textOf returns a token as the client wants to see it.
func (q *request) textOf(s *Server, token int32) string {
	if q.ReturnTokensAsIDs {
		return fmt.Sprintf("token_id:%d", token)
	}
	return s.Renderer.Decode([]int32{token})
}
