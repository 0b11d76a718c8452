package cli

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity"
)

// scored is a line of `score`. Logprobs[0] is null: the first token has no predecessor. Entropy[t] is of the distribution after token t. Nats.
type scored struct {
	Tokens   []int32    `json:"tokens"`
	Logprobs []*float32 `json:"logprobs"`
	Entropy  []float32  `json:"entropy"`
}

func scoreCommand() *cobra.Command {
	var model modelFlags
	var file, dtype string
	cmd := &cobra.Command{
		Use:   "score --model PATH --input FILE",
		Short: "Print log-probabilities and entropies of texts",
		Long:  "Read JSON lines {\"tokens\":[…]}, {\"text\":\"…\"} or {\"messages\":[…]} and print lines {\"tokens\":[…],\"logprobs\":[null,…],\"entropy\":[…]}, in nats.",
		Args:  wantArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dtype != "f32" && dtype != "bf16" {
				return fmt.Errorf("--dtype is %q: want f32 or bf16", dtype)
			}
			engine, _, err := model.open(cmd.Context(), trinity.EngineSpec{Forward: true, DType: dtype})
			if err != nil {
				return err
			}
			defer engine.Close()
			longest, err := model.longest()
			if err != nil {
				return err
			}
			out := json.NewEncoder(cmd.OutOrStdout()) // a line at a time, for programs that ask and wait
			return eachInput(cmd, file, func(in *input) error {
				tokens, err := in.tokens(model.text, false)
				if err != nil {
					return err
				}
				if len(tokens) > longest {
					return fmt.Errorf("%d tokens: the model reads at most %d (max_position_embeddings)", len(tokens), longest)
				}
				line, err := score(cmd, engine, tokens)
				if err != nil {
					return err
				}
				return out.Encode(line)
			})
		},
	}
	model.add(cmd)
	cmd.Flags().StringVarP(&file, "input", "i", "-", "file of JSON lines; - is standard input")
	cmd.Flags().StringVar(&dtype, "dtype", "f32", "number type of the weights: f32, or bf16 (rounded; computed with in f32)")
	return cmd
}

// score runs one sequence. A token is appended so that the distribution after the last one is computed too.
func score(cmd *cobra.Command, engine trinity.Engine, tokens []int32) (*scored, error) {
	n := len(tokens)
	if n == 0 {
		return nil, errors.New("there are no tokens to score")
	}
	e := &trinity.Experience{Tokens: append(append([]int32(nil), tokens...), tokens[n-1]), Mask: make([]bool, n+1), PromptLen: 1}
	for t := 1; t <= n; t++ {
		e.Mask[t] = true
	}
	batch := &trinity.Batch{Experiences: []*trinity.Experience{e}, Whole: []*trinity.Experience{e}}
	stats, err := engine.Forward(cmd.Context(), batch, trinity.Streams{Entropy: true})
	if err != nil {
		return nil, err
	}
	line := &scored{Tokens: tokens, Logprobs: make([]*float32, n), Entropy: stats[0].Entropy[1:]}
	for t := 1; t < n; t++ {
		line.Logprobs[t] = &stats[0].Logprob[t]
	}
	return line, nil
}
