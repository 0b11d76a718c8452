package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity"
)

func chatCommand() *cobra.Command {
	var model modelFlags
	var sampling samplingFlags
	var system string
	cmd := &cobra.Command{
		Use:   "chat --model PATH",
		Short: "Talk to a model",
		Long: "Talk to a model, line by line. /new starts a new conversation; /quit or the end of the\n" +
			"input ends the program; Ctrl-C ends the reply.",
		Args: wantArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := sampling.check(); err != nil {
				return err
			}
			sampler, err := model.openSampler(cmd.Context(), 1)
			if err != nil {
				return err
			}
			defer closeSampler(sampler)
			if model.text == nil || !model.text.HasTemplate() {
				return errors.New("the model has no chat template: use `trinity generate`")
			}
			c := &conversation{cmd: cmd, model: &model, sampler: sampler, params: sampling.params, system: system}
			c.reset()
			return c.loop()
		},
	}
	model.addSampler(cmd)
	sampling.add(cmd, 512, 0.7)
	cmd.Flags().StringVar(&system, "system", "", "system message")
	return cmd
}

type conversation struct {
	cmd      *cobra.Command
	model    *modelFlags
	sampler  trinity.Sampler
	params   trinity.SamplingParams
	system   string
	messages []trinity.Message
}

func (c *conversation) reset() {
	c.messages = nil
	if c.system != "" {
		c.messages = []trinity.Message{{Role: "system", Content: c.system}}
	}
}

const chatHelp = "/new starts a new conversation, /quit ends, /help shows this; Ctrl-C ends a reply"

func (c *conversation) loop() error {
	in := bufio.NewScanner(c.cmd.InOrStdin())
	in.Buffer(make([]byte, 64<<10), maxLine)
	out := io.Discard
	if isTerminal(c.cmd.InOrStdin()) {
		out = c.cmd.OutOrStdout()
		fmt.Fprintln(out, chatHelp)
	}
	for {
		fmt.Fprint(out, "> ")
		if !in.Scan() {
			fmt.Fprintln(out)
			return in.Err()
		}
		switch line := strings.TrimSpace(in.Text()); line {
		case "":
		case "/help":
			fmt.Fprintln(c.cmd.OutOrStdout(), chatHelp)
		case "/quit":
			return nil
		case "/new":
			c.reset()
		default:
			if err := c.turn(line); err != nil {
				return err
			}
		}
	}
}

// turn sends a message and prints the reply as it arrives.
func (c *conversation) turn(question string) error {
	ctx, stop := interruptible(c.cmd.Context())
	defer stop()
	messages := append(c.messages, trinity.Message{Role: "user", Content: question})
	prompt, err := c.model.text.Render(messages, nil, true)
	if err != nil {
		return err
	}
	p := c.params
	p.StopTokens = c.model.text.StopTokens()
	p.Seed += uint64(len(c.messages)) // each turn has its own seed
	stream := c.model.text.Tokenizer().Stream(true)
	var reply strings.Builder
	show := func(s string) { reply.WriteString(s); fmt.Fprint(c.cmd.OutOrStdout(), s) }
	tokens := make(chan int32, 1024)
	p.OnToken = func(_ int, s trinity.Sampled) {
		select {
		case tokens <- s.Token:
		case <-ctx.Done(): // the printing loop has ended
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := c.sampler.Sample(ctx, trinity.Prompt{Tokens: prompt}, p)
		done <- err
	}()
	for running := true; running; {
		select {
		case token := <-tokens:
			show(stream.Push(token))
		case err = <-done:
			running = false
		}
	}
	for len(tokens) > 0 {
		show(stream.Push(<-tokens))
	}
	show(stream.Flush())
	if err != nil && ctx.Err() == nil {
		return err
	}
	stop() // after the line, Ctrl-C ends the program
	fmt.Fprintln(c.cmd.OutOrStdout())
	c.messages = append(messages, trinity.Message{Role: "assistant", Content: reply.String()})
	return nil
}
