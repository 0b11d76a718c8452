package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/report"
	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/internal/run/learn"
	"github.com/trinity-go/trinity/internal/run/record"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/monitor"
)

// configFlags are the flags of commands that read a configuration.
type configFlags struct {
	command      string // the command's name
	path, engine string
	pluginDirs   []string
}

func (f *configFlags) add(cmd *cobra.Command) {
	f.command = cmd.Name()
	cmd.Flags().StringVarP(&f.path, "config", "c", "", "configuration file (YAML); it may also be the first argument")
	cmd.Flags().StringVar(&f.engine, "engine", "", "engine that trains and samples, instead of the configuration's: cpu")
	f.addPluginDirs(cmd)
}

func (f *configFlags) addPluginDirs(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.pluginDirs, "plugin-dir", nil,
		"folder whose Python modules register classes by name (python.plugin_dirs); may be repeated")
}

// settings returns the settings of the command line with those of flags.
func (f *configFlags) settings(given []string) []string {
	if len(f.pluginDirs) == 0 {
		return given
	}
	return append(slices.Clone(given), setting("python.plugin_dirs", f.pluginDirs))
}

// load reads the configuration. args are key=value overrides, after the file if --config does not
// name it.
func (f *configFlags) load(args []string) (*config.Config, error) {
	path, settings, err := f.file(args)
	if err != nil {
		return nil, err
	}
	return config.Load(path, config.Options{Overrides: f.settings(settings), Engine: f.engine})
}

// file returns the configuration's file and the overrides.
func (f *configFlags) file(args []string) (path string, settings []string, err error) {
	if f.path != "" {
		if len(args) > 0 && !strings.Contains(args[0], "=") {
			return "", nil, fmt.Errorf("%q and --config %q: give one configuration; settings are key=value", args[0], f.path)
		}
		return f.path, args, nil
	}
	if len(args) == 0 || strings.Contains(args[0], "=") {
		return "", nil, fmt.Errorf("no configuration: name its file, as in trinity %[1]s FILE, or trinity %[1]s --config FILE", f.command)
	}
	return args[0], args[1:], nil
}

// runFlags are the flags of the command run.
type runFlags struct {
	configFlags
	asJSON, anew, quiet bool
	join, stage         string
	seeds               []uint
}

func runCommand() *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run (FILE | --config FILE) [key=value …]",
		Short: "Run a configuration, or resume its run",
		RunE: func(cmd *cobra.Command, args []string) error {
			bridge.Allow(sayTo(cmd.ErrOrStderr()))
			if flags.anew {
				args = append(args, "continue_from_checkpoint=false")
			}
			cfg, err := flags.load(args)
			if err != nil {
				return err
			}
			if len(flags.seeds) > 0 {
				return flags.runSeeds(cmd, cfg, args)
			}
			return flags.run(cmd, cfg)
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&flags.asJSON, "json", false, "print the closing summary as JSON")
	cmd.Flags().BoolVarP(&flags.quiet, "quiet", "q", false, "print only the closing table")
	cmd.Flags().BoolVar(&flags.anew, "anew", false,
		"start all stages anew, in a directory beside the one of an earlier run: continue_from_checkpoint=false")
	cmd.Flags().StringVar(&flags.join, "join", "",
		"modes explore and serve: URL of a trainer that does not share the run's directory; TRINITY_TOKEN holds its token")
	cmd.Flags().StringVar(&flags.stage, "stage", "", "run only this stage of the configuration")
	cmd.Flags().UintSliceVar(&flags.seeds, "seeds", nil,
		"run once with each of these seeds, as NAME_seed0, NAME_seed1, …, and compare the runs on one page")
	return cmd
}

// runSeeds runs the configuration once with each seed and writes the report of all runs beside
// their directories. args are those with which the configuration was loaded.
func (f *runFlags) runSeeds(cmd *cobra.Command, cfg *config.Config, args []string) error {
	if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "seed=") }) {
		return errors.New("--seeds and seed=: give one of them")
	}
	if seeds := slices.Sorted(slices.Values(f.seeds)); len(slices.Compact(seeds)) < len(f.seeds) {
		return fmt.Errorf("--seeds %v names a seed twice", f.seeds)
	}
	var dirs []string
	for _, seed := range f.seeds {
		of, err := f.load(append(slices.Clone(args), fmt.Sprintf("seed=%d", seed), setting("name", fmt.Sprintf("%s_seed%d", cfg.Name, seed))))
		if err != nil {
			return err
		}
		if err := f.run(cmd, of); err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		dirs = append(dirs, of.CheckpointJobDir)
	}
	path := filepath.Join(filepath.Dir(dirs[0]), cfg.Name+"_seeds.html")
	out := cmd.OutOrStdout()
	if f.asJSON {
		out = io.Discard
	}
	page, err := report.Read(dirs...)
	if err == nil {
		err = page.WriteFile(path)
	}
	if err != nil {
		return err
	}
	c, err := report.Compare("", dirs...)
	if err != nil {
		return err
	}
	fmt.Fprintln(out)
	if err := c.Print(out); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\nreport of all seeds:  %s\n", path)
	return err
}

// run runs a configuration and prints its summary.
func (f *runFlags) run(cmd *cobra.Command, cfg *config.Config) error {
	for _, w := range cfg.Warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning:", w)
	}
	stop, cancel := interruptible(cmd.Context())
	defer cancel()
	say := sayTo(cmd.ErrOrStderr())
	tell := say
	if f.quiet {
		tell = func(string) {}
		defer context.AfterFunc(stop, func() {
			say("stops after the step of the trainer, if it is in one, with a checkpoint; Ctrl-C again ends it at once")
		})()
	}
	summary, err := run.Run(cmd.Context(), stop, cfg,
		run.Options{Say: tell, Console: true, Quiet: f.quiet, Join: f.join, Stage: f.stage})
	if f.asJSON {
		err = errors.Join(err, json.NewEncoder(cmd.OutOrStdout()).Encode(summary))
	} else if summary != nil {
		printSummary(cmd.OutOrStdout(), summary, err == nil, systemPrompt(cfg.Settled()))
	}
	if errors.Is(err, errInterrupted) && cfg.Mode != "serve" {
		how := "the same command"
		if !cfg.ContinueFromCheckpoint {
			how = "the command with name=" + cfg.Name + " and without --anew"
		}
		say("interrupted: " + how + " resumes from the last checkpoint")
	}
	return err
}

// didNothing reports whether this process made no step.
func didNothing(s *run.Summary) bool {
	return !slices.ContainsFunc(s.Stages, func(st record.StageSummary) bool {
		return !st.Skipped && (len(st.Rewards) > 0 || len(st.Losses) > 0 || len(st.Evals) > 0)
	})
}

// sayTo returns a function that prints a line for people, without secrets and control characters.
func sayTo(w io.Writer) func(line string) {
	return func(line string) { fmt.Fprintln(w, safetext.Printable(safetext.Hidden(line))) }
}

// systemPrompt returns the system prompt that a configuration gives to all prompts that it trains on; "" if it gives
// none or several.
func systemPrompt(stages []*config.Settled) string {
	var formats []config.Format
	for _, st := range stages {
		for _, t := range st.Data.Tasksets {
			if st.Explores && !t.Eval {
				formats = append(formats, t.Format)
			}
		}
		if st.Offline {
			formats = append(formats, st.Buffer.TrainerInput.ExperienceBuffer.Format)
		}
	}
	system := ""
	for i, f := range formats {
		if f.SystemPromptKey+f.SystemTemplate != "" || i > 0 && f.SystemPrompt != system {
			return ""
		}
		system = f.SystemPrompt
	}
	return system
}

// printSummary prints the table at the end of a run. It prints nothing for a run that failed before
// its first step.
func printSummary(out io.Writer, s *run.Summary, ended bool, system string) {
	if len(s.Stages) == 0 || !ended && didNothing(s) {
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nstage\talgorithm\tsteps\treward\tloss\trollout\ttrain")
	var model string
	var complete []string
	for _, st := range s.Stages {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", st.Name, st.Algorithm, st.Steps, ends(st.Rewards), ends(st.Losses),
			perSecond(st.Sampled), perSecond(st.Trained))
		if model = st.Model; st.Skipped {
			complete = append(complete, st.Name)
		}
	}
	w.Flush()
	if complete != nil {
		fmt.Fprintln(out, "already complete:", strings.Join(complete, ", "))
	}
	fmt.Fprintln(out, "reward and loss: means of the first and last steps; rollout, train: tokens/s")
	for _, st := range s.Stages {
		if dir := cmp.Or(st.Checkpoint, st.Model); dir != "" {
			fmt.Fprintf(out, "checkpoint of %s: %s\n", st.Name, dir)
		}
		if b := st.Best; b != nil {
			start := ""
			if b.Start != nil {
				start = fmt.Sprintf("; before the first step it was %.4g", *b.Start)
			}
			fmt.Fprintf(out, "best checkpoint of %s: %s, %s = %.4g at step %d%s\n", st.Name, b.Checkpoint, b.Metric, b.Value, b.Step, start)
		}
	}
	for _, st := range s.Stages {
		if ended && (st.Mode == "both" || st.Mode == "colocate") && st.Sampled > 0 && len(st.Losses) == 0 {
			fmt.Fprintf(out, "\n%s trained on nothing because every group was dropped: equal rewards, invalid rewards, failed "+
				"rollouts or an operator. The metrics and the log say why\n", st.Name)
		}
	}
	printEvals(out, s)
	if s.Report != "" {
		fmt.Fprintf(out, "\nreport:  %s\n", s.Report)
	}
	switch {
	case model == "":
	case learn.IsRewardModel(model):
		fmt.Fprintf(out, "\nlearn from the reward model:  default_reward_fn_type: reward_model, reward_fn_args: {model_path: %s}\n", model)
	default:
		fmt.Fprintf(out, "\ntalk to the model:  %s chat --model %s%s\n", invocation(), model, systemFlag(system))
	}
}

// systemFlag returns the flag with which chat begins as the prompts did that a model has learned with.
func systemFlag(system string) string {
	const longest = 200 // characters that fit on a command line that people read
	switch {
	case system == "":
		return ""
	case len(system) > longest || strings.ContainsFunc(system, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "\n  its prompts began with the system_prompt of the configuration: give it with --system"
	}
	return " --system '" + strings.ReplaceAll(system, "'", `'\''`) + "'"
}

// invocation returns the command that starts this program; `go run` leaves no binary to name.
func invocation() string {
	if strings.Contains(filepath.ToSlash(os.Args[0]), "/go-build") {
		return "go run ./cmd/trinity"
	}
	return os.Args[0]
}

// printEvals prints the first and the last value of each evaluation metric, except lengths and
// times.
func printEvals(out io.Writer, s *run.Summary) {
	type span struct{ first, last record.Eval }
	var order []string
	spans := map[string]*span{}
	firsts, lasts := trinity.Metrics{}, trinity.Metrics{}
	for _, st := range s.Stages {
		for _, e := range st.Evals {
			if strings.Contains(e.Name, "length") || strings.Contains(e.Name, "/time/") {
				continue
			}
			if spans[e.Name] == nil {
				spans[e.Name] = &span{first: e}
				order = append(order, e.Name)
				firsts[e.Name] = e.Value
			}
			spans[e.Name].last, lasts[e.Name] = e, e.Value
		}
	}
	if len(order) == 0 {
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nevaluation\tfirst (step)\tlast (step)")
	for _, name := range order {
		if monitor.RepeatsAccuracy(firsts, name) && monitor.RepeatsAccuracy(lasts, name) {
			continue
		}
		sp := spans[name]
		fmt.Fprintf(w, "%s\t%s (%d)\t%s (%d)\n", filepath.ToSlash(name),
			decimal(sp.first.Value), sp.first.Step, decimal(sp.last.Value), sp.last.Step)
	}
	w.Flush()
}

func ends(v []float64) string {
	head, tail := record.Ends(v)
	if math.IsNaN(head) {
		return "–"
	}
	return decimal(head) + " → " + decimal(tail)
}

// decimal returns a number with three places, or in short if it is large.
func decimal(v float64) string {
	if math.Abs(v) >= 1e6 {
		return fmt.Sprintf("%.4g", v)
	}
	return fmt.Sprintf("%.3f", v)
}

func perSecond(v float64) string {
	if v == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f", v)
}
