package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity"
)

// completion is a line that `generate --json` prints.
type completion struct {
	PromptTokens []int32   `json:"prompt_tokens"`
	Tokens       []int32   `json:"tokens"`
	Logprobs     []float32 `json:"logprobs"`
	Text         string    `json:"text"`
	FinishReason string    `json:"finish_reason"`
}

// samplingFlags are the flags of commands that sample.
type samplingFlags struct {
	params trinity.SamplingParams
}

func (f *samplingFlags) add(cmd *cobra.Command, maxTokens int, temperature float32) {
	p := &f.params
	cmd.Flags().IntVar(&p.MaxTokens, "max-tokens", maxTokens, "tokens to sample at most")
	cmd.Flags().Float32Var(&p.Temperature, "temperature", temperature, "sampling temperature; 0 is greedy")
	cmd.Flags().Float32Var(&p.TopP, "top-p", 1, "sample from the smallest set of tokens with this probability (nucleus sampling)")
	cmd.Flags().IntVar(&p.TopK, "top-k", 0, "sample from this many most likely tokens; 0 means all")
	cmd.Flags().Float32Var(&p.MinP, "min-p", 0, "drop tokens whose probability is below this share of the best token's")
	cmd.Flags().Float32Var(&p.RepetitionPenalty, "repetition-penalty", 1, "divide the logits of tokens already seen")
	cmd.Flags().StringArrayVar(&p.Stop, "stop", nil, "text that ends a reply (may be repeated)")
	cmd.Flags().Uint64Var(&p.Seed, "seed", 0, "same seed, same tokens")
}

func (f *samplingFlags) check() error {
	p := &f.params
	switch {
	case p.MaxTokens < 1:
		return fmt.Errorf("--max-tokens is %d: want at least 1", p.MaxTokens)
	case !(p.Temperature >= 0):
		return fmt.Errorf("--temperature is %v: want 0 or more", p.Temperature)
	case !(p.TopP > 0 && p.TopP <= 1):
		return fmt.Errorf("--top-p is %v: want more than 0, at most 1", p.TopP)
	case p.TopK < -1: // -1 means all in Trinity-RFT
		return fmt.Errorf("--top-k is %d: want 0 (all) or more", p.TopK)
	case !(p.MinP >= 0 && p.MinP < 1):
		return fmt.Errorf("--min-p is %v: want at least 0, less than 1", p.MinP)
	case !(p.RepetitionPenalty > 0):
		return fmt.Errorf("--repetition-penalty is %v: want more than 0", p.RepetitionPenalty)
	}
	return nil
}

// maxCompletions bounds --n, because generate holds all completions of a prompt in memory.
const maxCompletions = 1 << 16

func generateCommand() *cobra.Command {
	var model modelFlags
	var sampling samplingFlags
	var prompt, file string
	var n int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "generate --model PATH (--prompt TEXT | --input FILE)",
		Short: "Continue prompts",
		Long: "Continue a prompt, or each prompt in a file of JSON lines: {\"tokens\":[…]}, {\"text\":\"…\"}\n" +
			"or {\"messages\":[…]}. A --prompt is sent as a user message if the model has a chat\n" +
			"template; otherwise the model continues it as text.",
		Args: wantArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (prompt == "") == (file == "") {
				return errors.New("give one of --prompt and --input")
			}
			if err := sampling.check(); err != nil {
				return err
			}
			if n < 1 || n > maxCompletions {
				return fmt.Errorf("--n is %d: want 1 to %d", n, maxCompletions)
			}
			sampling.params.N = n
			sampler, err := model.openSampler(cmd.Context(), sequences)
			if err != nil {
				return err
			}
			defer closeSampler(sampler)
			if model.text != nil {
				sampling.params.StopTokens = model.text.StopTokens()
			}
			g := generation{cmd: cmd, model: &model, sampler: sampler, params: sampling.params, asJSON: asJSON}
			if file == "" {
				return g.print(g.ask(cmd.Context(), model.ask(prompt)))
			}
			return g.file(file)
		},
	}
	model.addSampler(cmd)
	sampling.add(cmd, 256, 0)
	cmd.Flags().StringVarP(&prompt, "prompt", "p", "", "prompt")
	cmd.Flags().StringVarP(&file, "input", "i", "", "file of JSON lines; - is standard input")
	cmd.Flags().IntVar(&n, "n", 1, "number of completions for each prompt")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per completion")
	return cmd
}

// sequences is the number of sequences to sample at once.
const sequences = 32

// ask reads the prompt given on the command line.
func (f *modelFlags) ask(prompt string) *input {
	if f.text != nil && f.text.HasTemplate() {
		return &input{Messages: []trinity.Message{{Role: "user", Content: prompt}}}
	}
	return &input{Text: &prompt}
}

// decode returns the text of tokens, or "" for a model without a tokenizer.
func (f *modelFlags) decode(tokens []int32) string {
	if f.text == nil {
		return ""
	}
	return f.text.Decode(tokens)
}

func closeSampler(s trinity.Sampler) {
	if c, ok := s.(io.Closer); ok {
		_ = c.Close() // the engine has no changes to save
	}
}
