package cli

import (
	"bufio"
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/durable"
)

var (
	//go:embed init/reward.py
	rewardScript []byte
	//go:embed init/config.yaml.tmpl
	configTemplate string
)

// beginning is what a new configuration needs to know.
type beginning struct {
	File, Model, Data, Task, Reward string
	Prompt, Answer                  string // columns; Answer may be "" for tasks whose rewards need none
	Chats                           bool   // the column of the question has whole chats, with the answers
	Minutes                         float64
	recipe                          // follows from the data

	lines *bufio.Scanner   // what a person types; nil if nobody is there
	rows  *dataset.Dataset // of Data; nil if it is not here
}

// needsAnswer reports whether the task is of no use without the column of the answer.
func (b *beginning) needsAnswer() bool {
	return slices.Contains([]string{"number", "label", "demonstrations"}, b.Task)
}

// addColumns adds the flags that name columns.
func (b *beginning) addColumns(cmd *cobra.Command) {
	cmd.Flags().StringVar(&b.Prompt, "prompt-key", "", "column of the question")
	cmd.Flags().StringVar(&b.Answer, "response-key", "", "column of the answer")
}

// taskKinds are the values of --task, with their meaning.
var taskKinds = [][2]string{
	{"number", "the answer is a number or a formula"}, {"label", "the answer is one of a few words"},
	{"json", "the answer is JSON of a certain form"}, {"program", "a program of yours scores the answer"},
	{"demonstrations", "the model learns the answers of the data (SFT)"},
}

func initCommand() *cobra.Command {
	var b beginning
	cmd := &cobra.Command{
		Use:   "init [FILE] --model MODEL --data FILE --task KIND",
		Short: "Write a first configuration, or a reward in Python",
		Long: "Write a short configuration with comments (default trinity.yaml): a stage that shows the model the answers,\n" +
			"one that lets it learn from rewards, and an evaluation. A fifth of the rows, at most 100, goes to a file\n" +
			"for evaluations alone. On a terminal the command asks for what the flags leave out. `trinity init\n" +
			"reward.py` writes a program in Python that scores replies. The command never overwrites a file.",
		Args: wantAtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b.File = "trinity.yaml"
			if len(args) > 0 {
				b.File = args[0]
			}
			if _, err := os.Lstat(b.File); !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s exists: name another file, such as trinity init %s", b.File, "my_"+filepath.Base(b.File))
			}
			text, next := rewardScript, "reward_fn_args: {command: [python3, "+b.File+"]}"
			if filepath.Ext(b.File) != ".py" {
				if err := b.ask(cmd); err != nil {
					return err
				}
				if err := b.columns(cmd); err != nil {
					return err
				}
				if b.rows == nil {
					fmt.Fprintf(cmd.OutOrStdout(), "%s is not on this machine: init takes the columns %q and %q, knows no labels and "+
						"keeps no rows for evaluations\n", b.Data, b.Prompt, b.Answer)
				}
				files, err := b.plan()
				if err != nil {
					return err
				}
				if text, err = b.sized(cmd, files); err != nil {
					return err
				}
				next = "next: trinity check --config " + b.File
			}
			if err := durable.WriteFile(b.File, text); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "wrote %s; %s\n", b.File, next)
			return err
		},
	}
	b.addColumns(cmd)
	var kinds []string
	for _, k := range taskKinds {
		kinds = append(kinds, k[0])
	}
	cmd.Flags().StringVarP(&b.Model, "model", "m", "", "model: directory, GGUF file or hub name")
	cmd.Flags().StringVarP(&b.Data, "data", "d", "", "data: a file (.csv, .jsonl, .json, .parquet, .arrow), a directory or a hub name")
	cmd.Flags().StringVarP(&b.Reward, "reward", "r", "", "reward function: trinity list reward_fn; if not given, that of the task")
	cmd.Flags().Float64Var(&b.Minutes, "minutes", 0, "size of the run, by the time that trinity check estimates on this machine")
	cmd.Flags().StringVarP(&b.Task, "task", "t", "", "kind of task: "+strings.Join(kinds, ", "))
	return cmd
}

// ask asks for what the flags leave out, if a person is there.
func (b *beginning) ask(cmd *cobra.Command) error {
	if isTerminal(cmd.InOrStdin()) {
		b.lines = bufio.NewScanner(cmd.InOrStdin())
	}
	for _, q := range []struct {
		flag, question string
		value          *string
	}{
		{"model", "Model (a directory, a GGUF file or a hub name)", &b.Model},
		{"data", "Data (a file, a directory or a hub name)", &b.Data},
		{"task", "Task (" + described() + ")", &b.Task},
	} {
		b.fill(cmd, q.question, q.value)
		if *q.value == "" && q.flag != "task" {
			return fmt.Errorf("--%s is not given: trinity %s", q.flag, cmd.Use)
		}
	}
	if !slices.ContainsFunc(taskKinds, func(k [2]string) bool { return k[0] == b.Task }) {
		return fmt.Errorf("--task is %q: want one of these: %s", b.Task, described())
	}
	return nil
}

func described() string {
	var all []string
	for _, k := range taskKinds {
		all = append(all, k[0]+": "+k[1])
	}
	return strings.Join(all, "; ")
}

// fill asks the person for a value that is not known yet, if a person is there.
func (b *beginning) fill(cmd *cobra.Command, question string, value *string) {
	if *value == "" && b.lines != nil {
		fmt.Fprint(cmd.OutOrStdout(), question+": ")
		b.lines.Scan()
		*value = strings.TrimSpace(b.lines.Text())
	}
}

// columns chooses the columns of the question and the answer by their names, if the data is here
// and no flag names them.
func (b *beginning) columns(cmd *cobra.Command) error {
	if _, err := os.Stat(b.Data); err != nil { // a hub name, or a file that comes later: check reads it
		b.Prompt, b.Answer = cmp.Or(b.Prompt, "question"), cmp.Or(b.Answer, "answer")
		return nil
	}
	d, err := dataset.Open(cmd.Context(), b.Data, dataset.Options{})
	if err != nil {
		return err
	}
	if b.rows = d; d.Len() == 0 {
		return fmt.Errorf("%s has no rows", b.Data)
	}
	row, err := d.Row(0)
	if err != nil {
		return err
	}
	has := strings.Join(slices.Sorted(maps.Keys(row)), ", ")
	for _, c := range []struct {
		of, flag string
		value    *string
		needed   bool
		usual    []string
	}{
		{"question", "prompt-key", &b.Prompt, true,
			[]string{"question", "prompt", "instruction", "problem", "query", "input", "text", "messages"}},
		{"answer", "response-key", &b.Answer, b.needsAnswer(),
			[]string{"answer", "response", "label", "output", "solution", "completion", "target", "team", "category",
				"reward_model.ground_truth", "ground_truth", "final_answer"}},
	} {
		*c.value = cmp.Or(*c.value, column(row, c.usual))
		if prompt, _ := (&trinity.Task{Row: row}).Field(b.Prompt); c.of == "answer" && b.Answer == "" && endsWithReply(prompt) {
			if !b.SFT() {
				return fmt.Errorf("the column %q of %s has chats with their answers, which --task demonstrations learns; for --task %s, "+
					"give the question and the answer columns of their own", b.Prompt, b.Data, b.Task)
			}
			b.Chats, c.needed = true, false
		}
		if c.needed {
			b.fill(cmd, "Column of the "+c.of+" ("+has+")", c.value)
		}
		_, found := (&trinity.Task{Row: row}).Field(*c.value)
		if !found && (c.needed || *c.value != "") {
			return fmt.Errorf("%s has the columns %s: name the column of the %s with --%s", b.Data, has, c.of, c.flag)
		}
	}
	answer := fmt.Sprintf(", the answer in %q", b.Answer)
	switch {
	case b.Chats:
		answer = ", with the answers"
	case b.Answer == "":
		answer = "; --response-key names the column of the answer"
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s has %d rows with the columns %s; the question is in %q%s\n",
		b.Data, d.Len(), has, b.Prompt, answer)
	return err
}

// column returns the first of the names that the row has, else its column with such a name in another case, else "".
func column(row map[string]any, names []string) string {
	for _, name := range names {
		if _, ok := (&trinity.Task{Row: row}).Field(name); ok {
			return name
		}
	}
	for _, name := range names {
		for _, own := range slices.Sorted(maps.Keys(row)) {
			if strings.EqualFold(own, name) {
				return own
			}
		}
	}
	return ""
}

var plainYAML = regexp.MustCompile(`^[A-Za-z_/.][\w/.-]*$`)

// render returns the configuration.
func (b *beginning) render() ([]byte, error) {
	quote := func(s string) string {
		if plainYAML.MatchString(s) && !slices.Contains([]string{"null", "true", "false", "yes", "no", "on", "off"}, strings.ToLower(s)) {
			return s
		}
		return strconv.Quote(s)
	}
	literal := func(s string) string { return quote(config.Escape(s)) } // the data may not name the environment's variables
	t, err := template.New("config").Funcs(template.FuncMap{"quote": quote, "literal": literal}).Parse(configTemplate)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, b)
	return out.Bytes(), err
}

// Name returns the name of the run: the file's, without what is not plain.
func (b *beginning) Name() string {
	base := strings.TrimSuffix(filepath.Base(b.File), filepath.Ext(b.File))
	return regexp.MustCompile(`[^\w-]+`).ReplaceAllString(base, "_")
}

// SFT reports whether the model learns from demonstrations.
func (b *beginning) SFT() bool { return b.Task == "demonstrations" }

// EvalInterval returns the steps between evaluations: at most four in a run, because they take as long as steps.
func (b *beginning) EvalInterval() int { return max(10, (b.Steps+3)/4) }
