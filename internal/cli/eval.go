package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/internal/trace"
)

// evalFlags are the flags of the command eval.
type evalFlags struct {
	configFlags
	model       modelFlags
	data        beginning
	reward      string
	n, reply    int
	temperature float64
	tasksets    []string
	stage       string
	output      string
}

func evalCommand() *cobra.Command {
	var f evalFlags
	cmd := &cobra.Command{
		Use:   "eval (--config FILE [--data FILE] | --data FILE --model PATH --reward NAME) [key=value …]",
		Short: "Evaluate a run's model, or any model on questions",
		Long: "With --config, run the evaluation of a run again: its tasksets, prompts, rewards and arguments, with its best\n" +
			"checkpoint if it keeps one, else the newest, or with --model; --data gives it other rows with the same columns.\n" +
			"With --data alone, answer the questions of a file. The settings of this taskset are below\n" +
			"buffer.explorer_input.eval_tasksets.0, for example\n" +
			"'buffer.explorer_input.eval_tasksets.0.reward_fn_args={answer: whole}'. FILE may also be the first\n" +
			"argument: .yaml is a configuration. Both print the means of the reward and of its parts. Each answer becomes\n" +
			"a line of --output (JSON) as soon as those of the rows before are there, or a row of a table if the name ends\n" +
			"in .parquet. The command never overwrites a file. trinity compare --answers shows two side by side.",
		RunE: func(cmd *cobra.Command, args []string) error {
			bridge.Allow(sayTo(cmd.ErrOrStderr()))
			return f.run(cmd, f.first(args))
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.path, "config", "c", "", "configuration of a run (YAML)")
	f.addPluginDirs(cmd)
	flags.StringSliceVar(&f.tasksets, "taskset", nil, "with --config: name of an evaluation taskset; if not given, all")
	flags.StringVar(&f.stage, "stage", "", "with --config: the stage; if not given, the last with evaluation tasksets")
	flags.StringVarP(&f.model.path, "model", "m", "", modelHelp)
	f.model.addLength(cmd)
	f.data.addColumns(cmd)
	flags.StringVarP(&f.data.Data, "data", "d", "", "questions with answers: a file (.csv, .jsonl, .json, .parquet, .arrow) or a directory")
	flags.StringVarP(&f.reward, "reward", "r", "", "reward function: trinity list reward_fn")
	flags.IntVarP(&f.n, "n", "n", 1, "replies to each question")
	flags.Float64Var(&f.temperature, "temperature", 0, "sampling temperature; 0 is greedy")
	flags.IntVar(&f.reply, "max-tokens", 256, "most tokens of a reply")
	flags.StringVarP(&f.output, "output", "o", "", "file of the answers; if not given, with --config NAME_answers.jsonl, else none")
	return cmd
}

// first takes the file of a configuration or of data from the arguments, and returns the others.
func (f *evalFlags) first(args []string) []string {
	if len(args) == 0 || strings.Contains(args[0], "=") || f.path+f.data.Data != "" {
		return args
	}
	if ext := filepath.Ext(args[0]); ext == ".yaml" || ext == ".yml" {
		f.path = args[0]
	} else {
		f.data.Data = args[0]
	}
	return args[1:]
}

// check refuses flags that do not go together.
func (f *evalFlags) check(cmd *cobra.Command) error {
	for _, name := range []string{"reward", "prompt-key", "response-key", "n", "temperature", "max-tokens", "max-model-len"} {
		if f.path != "" && cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s does not go with --config, whose file says it already", name)
		}
	}
	for _, flag := range []struct{ name, value string }{{"model", f.model.path}, {"data", f.data.Data}, {"reward", f.reward}} {
		if f.path == "" && flag.value == "" {
			return fmt.Errorf("--%s is not given: trinity %s", flag.name, cmd.Use)
		}
	}
	if f.path == "" && (f.stage != "" || len(f.tasksets) > 0) {
		return errors.New("--stage and --taskset go with --config")
	}
	return nil
}

// run evaluates and prints the means.
func (f *evalFlags) run(cmd *cobra.Command, args []string) (err error) {
	if err := f.check(cmd); err != nil {
		return err
	}
	scratch, err := durable.NewScratch("trinity-eval-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scratch.Close()) }()
	stop, cancel := interruptible(cmd.Context())
	defer cancel()
	cfg, prefix, err := f.configuration(cmd, scratch.Dir, args)
	if err != nil {
		return err
	}
	o := run.EvaluateOptions{
		Stage: f.stage, Tasksets: f.tasksets, Dir: scratch.Dir,
		Say: sayTo(cmd.ErrOrStderr()),
	}
	if f.path != "" {
		o.Model, o.Data, f.output = f.model.path, f.data.Data, cmp.Or(f.output, cfg.Name+"_answers.jsonl")
	}
	var answers answersFile
	if f.output != "" {
		if err := answers.create(f.output); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, answers.close()) }()
		o.Answers = answers.add
	}
	m, err := run.Evaluate(stop, cfg, o)
	if err != nil {
		if answers.answers > 0 {
			o.Say(fmt.Sprintf("the evaluation ended early: %s has %d answers", f.output, answers.answers))
		}
		return orInterrupted(stop, err)
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if strings.Contains(name, "/mean@") {
			fmt.Fprintf(w, "%s\t%.4g\n", strings.TrimPrefix(name, prefix), m[name])
		}
	}
	if err := w.Flush(); err != nil || f.output == "" {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), "answers: "+f.output)
	return err
}

// answersFile is the file of the answers: one of lines, which grows with each, or a table, which is written at the end.
type answersFile struct {
	*os.File
	answers int
	table   []trace.Evaluated // of a table
	lines   *json.Encoder     // nil for a table
}

// create makes the file. It is an error if there is one already.
func (a *answersFile) create(path string) (err error) {
	a.File, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists: name another file with --output", path)
	}
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	if filepath.Ext(path) != ".parquet" {
		a.lines = json.NewEncoder(a.File)
		a.lines.SetEscapeHTML(false)
	}
	return nil
}

// add adds the answers to a task.
func (a *answersFile) add(rows []trace.Evaluated) error {
	a.answers += len(rows)
	if a.lines == nil {
		a.table = append(a.table, rows...)
		return nil
	}
	for _, row := range rows {
		if err := a.lines.Encode(row); err != nil {
			return err
		}
	}
	return nil
}

// close writes a table, closes the file, and removes one without an answer.
func (a *answersFile) close() (err error) {
	if len(a.table) > 0 {
		var data []byte
		if data, err = trace.EvaluatedFile(a.table); err == nil {
			_, err = a.Write(data)
		}
	}
	err = errors.Join(err, a.Sync(), a.File.Close())
	if a.answers == 0 {
		err = errors.Join(err, os.Remove(a.Name()))
	}
	return err
}

// configuration returns the configuration of the run, or one for a model and questions, whose metrics have a
// prefix that needs no showing.
func (f *evalFlags) configuration(cmd *cobra.Command, dir string, args []string) (cfg *config.Config, prefix string, err error) {
	if f.path != "" {
		cfg, err = f.load(append(args, "monitor.monitor_type=[jsonl]", "monitor.monitor_args={}")) // no service hears of it
		return cfg, "", err
	}
	if err := f.data.openData(cmd); err != nil {
		return nil, "", err
	}
	if err := f.data.columns(cmd); err != nil {
		return nil, "", err
	}
	if _, err := f.model.find(cmd.Context()); err != nil {
		return nil, "", err
	}
	format := map[string]string{"prompt_key": f.data.Prompt}
	if f.data.Answer != "" {
		format["response_key"] = f.data.Answer
	}
	taskset := map[string]any{
		"name": "data", "path": f.data.Data, "format": format,
		"repeat_times": f.n, "rollout_args": map[string]float64{"temperature": f.temperature},
		"default_workflow_type": "simple_workflow", "default_reward_fn_type": f.reward,
	}
	settings := []string{
		setting("buffer.explorer_input.eval_tasksets", []any{taskset}), fmt.Sprintf("model.max_response_tokens=%d", f.reply),
	}
	cfg, err = f.model.alone("bench", dir, f.settings(append(settings, args...)))
	return cfg, "data/", err
}
