package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity"
)

// generation samples completions and prints them in the order of the prompts.
type generation struct {
	cmd     *cobra.Command
	model   *modelFlags
	sampler trinity.Sampler
	params  trinity.SamplingParams
	asJSON  bool
}

// answer holds the completions of a prompt, or the error.
type answer struct {
	prompt []int32
	out    []trinity.Completion
	err    error
	done   chan struct{} // closed when the fields above are set
}

// file completes the lines of a file, several at once.
func (g *generation) file(path string) error {
	ctx, cancel := context.WithCancel(g.cmd.Context())
	defer cancel()
	queue := make(chan *answer, max(1, sequences/g.params.N))
	go func() {
		defer close(queue)
		put := func(a *answer) {
			select {
			case queue <- a:
			case <-ctx.Done():
			}
		}
		err := eachInput(g.cmd, path, func(in *input) error {
			put(g.ask(ctx, in))
			return context.Cause(ctx)
		})
		put(answered(err)) // print shows it after the completions of the earlier lines
	}()
	for a := range queue {
		if err := g.print(a); err != nil {
			return err
		}
	}
	return context.Cause(g.cmd.Context())
}

func answered(err error) *answer {
	a := &answer{err: err, done: make(chan struct{})}
	close(a.done)
	return a
}

// ask starts to sample the completions of a prompt.
func (g *generation) ask(ctx context.Context, in *input) *answer {
	tokens, err := in.tokens(g.model.text, true)
	if err != nil {
		return answered(in.at(err))
	}
	a := &answer{prompt: tokens, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.out, err = g.sampler.Sample(ctx, trinity.Prompt{Tokens: tokens}, g.params)
		a.err = in.at(err)
	}()
	return a
}

// print waits for the completions of a prompt and prints them.
func (g *generation) print(a *answer) error {
	<-a.done
	if a.err != nil {
		return a.err
	}
	w := g.cmd.OutOrStdout()
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, c := range a.out {
		var err error
		if text := g.model.decode(c.Tokens); g.asJSON {
			err = e.Encode(completion{PromptTokens: a.prompt, Tokens: c.Tokens, Logprobs: c.Logprobs, Text: text, FinishReason: c.FinishReason})
		} else {
			_, err = fmt.Fprintln(w, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
