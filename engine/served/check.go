package served

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/trinity-go/trinity"
)

// checker checks servers and their answers against the model and the run.
type checker struct {
	vocab  int
	eos    []int32
	length int                       // tokens of prompt and reply
	rank   int                       // the largest of an adapter; 0 without any
	record bool                      // log-probabilities are trained on
	scores bool                      // it is asked to score given tokens
	router router                    // the experts that it must return
	tokens func(text string) []int32 // encodes a text; nil for a model without a tokenizer
	image  int32                     // the token of a prompt that a server replaces by an image; -1 for none
}

// trust asks a server three small questions, and refuses one that lacks what the run needs: the ids
// of tokens, and for training also their log-probabilities as sampled.
func (c *checker) trust(ctx context.Context, s *server, say func(string)) error {
	about := s.about()
	switch {
	case about.length > 0 && about.length < c.length:
		return fmt.Errorf("%s takes %d tokens, fewer than model.max_model_len %d: start it with more, or lower the key",
			s.name(), about.length, c.length)
	case c.scores && about.length == c.length:
		return fmt.Errorf("%s takes %d tokens, no more than model.max_model_len, and a server adds one to what it scores: "+
			"start it with %d, or lower the key", s.name(), about.length, c.length+1)
	}
	if err := c.checkAdapter(s); err != nil {
		return err
	}
	if err := c.compareTokenizer(ctx, s, say); err != nil {
		return err
	}
	hot, err := c.question(ctx, s, 1, nil)
	if err != nil {
		return err
	}
	if c.scores {
		if _, err := scored(ctx, s, &query{prompt: c.asked()}); err != nil {
			return fmt.Errorf("%s: %w", s.name(), err)
		}
	}
	if !c.record {
		return nil
	}
	cold, err := c.question(ctx, s, 0.5, nil)
	if err != nil {
		return err
	}
	if err := checkTemperature(hot.top[0], cold.top[0]); err != nil {
		return fmt.Errorf("%s: %w: %s", s.name(), err, about.flags.temperature)
	}
	stopped, err := c.question(ctx, s, 1, hot.tokens[:1])
	if err == nil && stopped.tokens[0] == hot.tokens[0] && len(stopped.tokens) > 1 {
		err = fmt.Errorf("%s does not end a reply at a stop token", s.name())
	}
	return err
}

// checkAdapter refuses a server that does not take the adapters of the run, as far as it tells.
func (c *checker) checkAdapter(s *server) error {
	about := s.about()
	switch {
	case c.rank == 0:
		return nil
	case about.noLoRA != "":
		return fmt.Errorf("%s takes no adapters: %s", s.name(), about.noLoRA)
	case about.rank > 0 && about.rank < c.rank:
		return fmt.Errorf("%s takes adapters of rank %d at most, and one of model.lora_configs has rank %d: "+
			"start it with --max-lora-rank %[3]d, or lower lora_rank", s.name(), about.rank, c.rank)
	}
	return nil
}

// telling are texts that tokenizers with different rules or vocabularies encode differently.
var telling = []string{
	"The quick brown fox jumps over the lazy dog.", "3.14159 + 2718 = 2721.14159", "def f(x):\n    return x ** 2\n",
	"Größe, naïve café, Ελλάδα", "你好，世界 🙂",
}

// compareTokenizer refuses a server whose tokenizer encodes a text differently from the model's.
func (c *checker) compareTokenizer(ctx context.Context, s *server, say func(string)) error {
	if c.tokens == nil {
		return nil
	}
	for _, text := range telling {
		got, err := s.tokenize(ctx, text)
		switch own := c.tokens(text); {
		case statusOf(err) > 0:
			say(fmt.Sprintf("%s encodes no texts (/tokenize), so its tokenizer is not compared with the model's", s.name()))
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", s.name(), err)
		case !slices.Equal(got, own):
			return fmt.Errorf("%s has another tokenizer than model.model_path: %q is %v there and %v here", s.name(), text, got, own)
		}
	}
	return nil
}

// questionTokens is the length of the replies to questions.
const questionTokens = 3

// question samples a few tokens. The prompt's tokens are far from one another, so that a server that
// writes them as text and reads the text finds others.
func (c *checker) question(ctx context.Context, s *server, temperature float32, stop []int32) (*answer, error) {
	q := &query{eos: c.eos, SamplingParams: trinity.SamplingParams{
		N: 1, Temperature: temperature, MaxTokens: questionTokens, IgnoreEOS: true, StopTokens: stop, Seed: math.MaxInt64,
	}}
	q.prompt, q.routed = c.asked(), c.router.Layers > 0
	if c.record {
		q.TopLogprobs = trinity.MaxTopLogprobs
	}
	a, err := s.sample(ctx, q)
	about := s.about()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", s.name(), err)
	case len(a.tokens) == 0:
		return nil, fmt.Errorf("%s returns no token ids: %s", s.name(), about.flags.ids)
	case c.record && len(a.logprobs) != len(a.tokens):
		return nil, fmt.Errorf("%s returns %d log-probabilities for %d tokens: %s",
			s.name(), len(a.logprobs), len(a.tokens), about.flags.logprobs)
	}
	if err := c.checkAnswer(q, a); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name(), err)
	}
	if _, err := c.router.of(q, a); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name(), err)
	}
	return a, nil
}

// asked are the tokens of the questions.
func (c *checker) asked() (tokens []int32) {
	for i := range min(8, c.length-questionTokens) {
		token := int32((7919*i + 11) % c.vocab)
		if token == c.image { // which no image would replace
			token = 0
		}
		tokens = append(tokens, token)
	}
	return tokens
}

// checkTemperature compares the most likely tokens of one place at temperatures 1 and 0.5. The
// difference of two log-probabilities must be twice as large at 0.5, over the whole vocabulary.
func checkTemperature(hot, cold []trinity.TokenLogprob) error {
	at := map[int32]float64{}
	for _, x := range cold {
		at[x.Token] = float64(x.Logprob)
	}
	first, far, ratio := -1, 0.0, 0.0
	for i, x := range hot {
		switch _, known := at[x.Token]; {
		case !(x.Logprob > leastLogprob):
			return errors.New("its log-probabilities are those of some tokens alone, not of the whole vocabulary")
		case !known:
		case first < 0:
			first = i
		default:
			if d := float64(hot[first].Logprob - x.Logprob); d > far {
				far, ratio = d, (at[hot[first].Token]-at[x.Token])/d
			}
		}
	}
	switch {
	case far < 1e-3:
		return errors.New("its most likely tokens are equally likely, so nothing can be told of their log-probabilities")
	case ratio < 1.8 || ratio > 2.2:
		return fmt.Errorf("its log-probabilities ignore the temperature: at 0.5 they differ %.2f times as much as at 1, not 2 times", ratio)
	}
	return nil
}

// leastLogprob is below every log-probability of a likely token. Servers write −9999 for tokens that
// truncation leaves out.
const leastLogprob = -1000

// look samples one token, to see whether a server works.
func (c *checker) look(ctx context.Context, s *server) error {
	q := &query{eos: c.eos, prompt: []int32{0}, SamplingParams: trinity.SamplingParams{N: 1, MaxTokens: 1}}
	_, err := s.sample(ctx, q)
	return err
}
