package cli

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/verify"
)

// verdict marks a command that exits with 1 to answer no. It exits with undecidedCode if it found
// no answer.
const (
	verdict       = "verdict"
	undecidedCode = 2
)

// errDisagree is the error of `verify` if the engines disagree.
var errDisagree = errors.New("the engines disagree")

//go:embed prompts.txt
var prompts string

// verifyFlags are the flags of `verify` in addition to the model's flags.
type verifyFlags struct {
	against, prompts, dtype, keyEnv string
	options                         verify.Options
	limits                          verify.Limits
	asJSON                          bool
}

func verifyCommand() *cobra.Command {
	var model modelFlags
	flags := verifyFlags{limits: verify.DefaultLimits()}
	cmd := &cobra.Command{
		Use:   "verify --model PATH --against URL|PATH",
		Short: "Compare another engine with this one",
		Long: "Compare log-probabilities, greedy tokens and samples of another engine with this one.\n" +
			"The other engine is an OpenAI-compatible server, or records in a file or directory of\n" +
			"JSON lines, such as `trinity score` prints. The exit code is 0 if they agree, 1 if they\n" +
			"disagree, 2 if the comparison failed.",
		Args:        wantArgs(0),
		Annotations: map[string]string{verdict: "exit code"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			if err := flags.checkUsed(cmd); err != nil {
				return err
			}
			trainer, err := model.openEngine(cmd.Context(), flags.dtype)
			if err != nil {
				return err
			}
			defer trainer.Close()
			report, err := flags.compare(cmd, &model, trainer)
			if err != nil {
				return err
			}
			if flags.asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(report)
			} else {
				err = report.Print(cmd.OutOrStdout())
			}
			if err == nil && !report.Agree {
				return errDisagree
			}
			return err
		},
	}
	model.add(cmd)
	flags.add(cmd)
	return cmd
}

func (f *verifyFlags) add(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&f.against, "against", "", "URL of an OpenAI-compatible server, or file or directory of records")
	if err := cmd.MarkFlagRequired("against"); err != nil {
		panic(err) // the flag was added above
	}
	set.StringVarP(&f.prompts, "prompts", "i", "", "JSON lines with prompts for the server; - is standard input; default: a built-in set")
	set.StringVar(&f.options.Model, "peer-model", "", "the model's name on the server; the default is the first that it lists")
	set.StringVar(&f.keyEnv, "api-key-env", "OPENAI_API_KEY", "environment variable with the server's key")
	set.DurationVar(&f.options.Timeout, "timeout", time.Minute, "longest wait for the server's answer")
	set.IntVar(&f.options.Samples, "samples", 200,
		"first tokens to draw from the server for each prompt and setting, at least 50; 0 skips them")
	set.StringVar(&f.dtype, "dtype", "f32", "number type of this engine's weights: f32, or bf16 (rounded, then computed in f32)")
	l := &f.limits
	set.Float64Var(&l.Mean, "tolerance", l.Mean, "largest mean |difference| of log-probabilities, nats")
	set.Float64Var(&l.Max, "tolerance-max", l.Max, "largest |difference| of a log-probability, nats; 0 means no limit")
	set.Float64Var(&l.Ratio, "ratio-share", l.Ratio, "largest share of tokens whose probability ratio is outside 0.8 to 1.25")
	set.Float64Var(&l.Greedy, "greedy-share", l.Greedy, "least share of equal greedy tokens; ties within twice the tolerance count as equal")
	set.Float64Var(&l.Significance, "significance", l.Significance, "probability that the samples of a correct engine are called wrong")
	set.BoolVar(&f.asJSON, "json", false, "print one JSON object")
}

func (f *verifyFlags) check() error {
	for _, c := range []struct {
		name        string
		value, most float64
	}{
		{"tolerance", f.limits.Mean, 100}, {"tolerance-max", f.limits.Max, 100}, {"ratio-share", f.limits.Ratio, 1},
		{"greedy-share", f.limits.Greedy, 1}, {"significance", f.limits.Significance, 1}, {"samples", float64(f.options.Samples), maxCompletions},
	} {
		if !(c.value >= 0 && c.value <= c.most) {
			return fmt.Errorf("--%s is %v: want 0 to %v", c.name, c.value, c.most)
		}
	}
	if n := f.options.Samples; n > 0 && n < verify.MinDraws {
		return fmt.Errorf("--samples is %d: want at least %d, or 0 for none", n, verify.MinDraws)
	}
	if f.dtype != "f32" && f.dtype != "bf16" {
		return fmt.Errorf("--dtype is %q: want f32 or bf16", f.dtype)
	}
	if f.options.Timeout <= 0 {
		return fmt.Errorf("--timeout is %v: want more than 0", f.options.Timeout)
	}
	return nil
}

// ofServer lists the flags that only apply to a server.
var ofServer = []string{"prompts", "peer-model", "api-key-env", "timeout", "samples"}

// checkUsed refuses flags that would have no effect.
func (f *verifyFlags) checkUsed(cmd *cobra.Command) error {
	if f.hasServer() {
		return nil
	}
	for _, name := range ofServer {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s is for a server, and --against %s is a path: leave it out, or give an address that begins "+
				"with http:// or https://",
				name, f.against)
		}
	}
	return nil
}

func (f *verifyFlags) hasServer() bool { return strings.Contains(f.against, "://") }

// compare reads the records and compares them with this engine.
func (f *verifyFlags) compare(cmd *cobra.Command, model *modelFlags, trainer engine.Trainer) (*verify.Report, error) {
	oracle, ok := trainer.(verify.Oracle)
	if !ok {
		return nil, errors.New("this engine returns no distributions to compare with")
	}
	if r := model.text; r != nil {
		f.options.Encode, f.options.Decode, f.options.Stops = r.Encode, r.Decode, r.StopTokens()
	}
	found, err := f.find(cmd, model, oracle)
	if err != nil {
		return nil, err
	}
	report, err := verify.Judge(cmd.Context(), oracle, found.Records, f.options.Stops, f.limits)
	if err != nil {
		return nil, err
	}
	report.Model, report.Against = model.path, f.against
	report.Used, report.Warnings = found.Used, found.Warnings
	return report, nil
}

// find returns the records to compare with: from files, or from a server.
func (f *verifyFlags) find(cmd *cobra.Command, model *modelFlags, oracle verify.Oracle) (*verify.Answers, error) {
	if !f.hasServer() {
		records, err := verify.ReadRecords(f.against)
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("--against %s: no such file or directory; a server's address begins with http:// or https://", f.against)
		}
		return &verify.Answers{Records: records}, err
	}
	asked, err := f.ask(cmd, model)
	if err != nil {
		return nil, err
	}
	f.options.Key = os.Getenv(f.keyEnv)
	return verify.Ask(cmd.Context(), f.against, oracle, asked, f.options)
}

// ask returns the prompts for a server.
func (f *verifyFlags) ask(cmd *cobra.Command, model *modelFlags) ([][]int32, error) {
	cfg, err := model.config()
	if err != nil {
		return nil, err
	}
	var out [][]int32
	add := func(in *input) error {
		tokens, err := in.tokens(model.text, true)
		if err == nil {
			err = scorable(tokens, cfg)
		}
		if err == nil && len(tokens) < 2 {
			err = errors.New("a prompt of one token has no log-probability to compare: want at least two")
		}
		out = append(out, tokens)
		return in.at(err)
	}
	if f.prompts != "" {
		if err := eachInput(cmd, f.prompts, add); err != nil {
			return nil, err
		}
		if len(out) == 0 {
			return nil, fmt.Errorf("%s holds no prompts", f.prompts)
		}
		return out, nil
	}
	for text := range strings.Lines(prompts) {
		text = strings.TrimSuffix(text, "\n")
		if err := add(&input{Text: &text}); err != nil {
			return nil, fmt.Errorf("built-in prompt %q: %w; give others with --prompts", text, err)
		}
	}
	return out, nil
}
