package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/model"
)

// scored is a line that `score` prints, in nats. Logprobs[0] is null because the first token has no
// predecessor. Entropy[t] belongs to the distribution after token t.
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
		Long: "Read JSON lines {\"tokens\":[…]}, {\"text\":\"…\"} or {\"messages\":[…]} and print lines\n" +
			"{\"tokens\":[…],\"logprobs\":[null,…],\"entropy\":[…]}, in nats.",
		Args: wantArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dtype != "f32" && dtype != "bf16" {
				return fmt.Errorf("--dtype is %q: want f32 or bf16", dtype)
			}
			trainer, err := model.openEngine(cmd.Context(), dtype)
			if err != nil {
				return err
			}
			defer trainer.Close()
			cfg, err := model.config()
			if err != nil {
				return err
			}
			out := json.NewEncoder(cmd.OutOrStdout()) // unbuffered: a program may wait for each reply
			return eachInput(cmd, file, func(in *input) error {
				tokens, err := in.tokens(model.text, false)
				if err == nil {
					err = scorable(tokens, cfg)
				}
				if err != nil {
					return in.at(err)
				}
				line, err := score(cmd, trainer, tokens)
				if err == nil && !line.finite() {
					err = model.notNumbers()
				}
				if err != nil {
					return in.at(err)
				}
				return out.Encode(line)
			})
		},
	}
	model.add(cmd)
	cmd.Flags().StringVarP(&file, "input", "i", "-", "file of JSON lines; - is standard input")
	cmd.Flags().StringVar(&dtype, "dtype", "f32", "number type of the weights: f32, or bf16 (rounded, then computed in f32)")
	return cmd
}

// scorable returns an error if the model cannot read the tokens.
func scorable(tokens []int32, cfg *model.Config) error {
	if len(tokens) == 0 {
		return errors.New("there are no tokens to score")
	}
	if len(tokens) > cfg.MaxPositions {
		return fmt.Errorf("%d tokens: the model reads at most %d (max_position_embeddings)", len(tokens), cfg.MaxPositions)
	}
	for t, token := range tokens {
		if token < 0 || int(token) >= cfg.VocabSize {
			return fmt.Errorf("token %d at position %d is outside the vocabulary of %d", token, t, cfg.VocabSize)
		}
	}
	return nil
}

// score scores one sequence. It appends a token so that the engine also computes the distribution
// after the last token.
func score(cmd *cobra.Command, trainer engine.Trainer, tokens []int32) (*scored, error) {
	n := len(tokens)
	e := &trinity.Experience{Tokens: append(append([]int32(nil), tokens...), tokens[n-1]), Mask: make([]bool, n+1), PromptLen: 1}
	for t := 1; t <= n; t++ {
		e.Mask[t] = true
	}
	batch := &trinity.Batch{Experiences: []*trinity.Experience{e}, Whole: []*trinity.Experience{e}}
	stats, err := trainer.Forward(cmd.Context(), batch, trinity.Streams{Entropy: true})
	if err != nil {
		return nil, err
	}
	line := &scored{Tokens: tokens, Logprobs: make([]*float32, n), Entropy: stats[0].Entropy[1:]}
	for t := 1; t < n; t++ {
		line.Logprobs[t] = &stats[0].Logprob[t]
	}
	return line, nil
}

// finite reports whether all numbers of the line are numbers.
func (s *scored) finite() bool {
	for _, p := range s.Logprobs {
		if p != nil && !isFinite(*p) {
			return false
		}
	}
	return !slices.ContainsFunc(s.Entropy, func(e float32) bool { return !isFinite(e) })
}

func isFinite(v float32) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }

// notNumbers returns the error of a model whose logits are not numbers. It names the first tensor of
// the model, or of its adapter, that holds NaN or infinity.
func (f *modelFlags) notNumbers() error {
	const broken = "the model's logits are not numbers: the weights are broken"
	var sources []model.Source
	m, err := model.Open(f.base)
	if err != nil {
		return fmt.Errorf("%s (%w)", broken, err)
	}
	defer m.Close()
	sources = append(sources, m)
	if a, err := model.OpenAdapter(f.path, m.Config); err == nil { // the path may be the model's own
		defer a.Close()
		sources = append(sources, a)
	}
	for _, source := range sources {
		for _, name := range source.Names() {
			t, err := source.Tensor(name)
			if err != nil {
				return fmt.Errorf("%s (%w)", broken, err)
			}
			for row := range t.Len() / t.RowLen() {
				numbers := make([]float32, t.RowLen())
				if err := t.Rows(numbers, row, row+1); err != nil {
					return fmt.Errorf("%s (%w)", broken, err)
				}
				if i := slices.IndexFunc(numbers, func(v float32) bool { return !isFinite(v) }); i >= 0 {
					return fmt.Errorf("%s: tensor %s holds %g at row %d, column %d", broken, name, numbers[i], row, i)
				}
			}
		}
	}
	return errors.New(broken + ": each is a number, and the activations become too large")
}
