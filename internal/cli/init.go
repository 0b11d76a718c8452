package cli

import (
	"bufio"
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/config"
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
	Program                         string // of --task program
	Prompt, Answer                  string // columns; Answer may be "" for tasks whose rewards need none
	Chats                           bool   // the column of the question has whole chats, with the answers
	Minutes                         float64
	recipe                          // follows from the data

	environmentRecipe     // of an environment
	said              int // bytes of the longest first message of an environment

	lines *bufio.Scanner // typed answers; nil without a terminal
	rows  ownRows        // of Data or of an environment; nil if they are not here
}

// ownRows are rows with their places for errors.
type ownRows interface {
	Len() int
	Row(i int) (map[string]any, error)
	Where(i int) string
}

// named takes the file that the command names, which may be the data.
func (b *beginning) named(args []string) error {
	if b.File = "trinity.yaml"; len(args) == 0 {
		return b.isFree(b.File)
	}
	b.File = args[0]
	_, err := os.Stat(b.File)
	switch ext := filepath.Ext(b.File); {
	case err == nil && b.Data == "" && !slices.Contains([]string{".yaml", ".yml", ".py"}, ext):
		base := filepath.Base(b.File)
		b.Data, b.File = b.File, strings.TrimSuffix(base, ext)+".yaml"
	case err == nil && ext == ".py" && b.isEnvironment():
		return nil
	}
	return b.isFree(b.File)
}

// isFree returns an error if there is a file of that name.
func (b *beginning) isFree(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists: name another file, such as trinity init %s", path, "my_"+filepath.Base(b.File))
	}
	return nil
}

// ofData writes a configuration for data.
func (b *beginning) ofData(cmd *cobra.Command) error {
	if err := b.ask(cmd); err != nil {
		return err
	}
	if err := b.openData(cmd); err != nil {
		return err
	}
	if err := b.chooseTask(cmd); err != nil {
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
	return b.write(cmd, files, "")
}

// reward writes a function that scores replies.
func (b *beginning) reward(cmd *cobra.Command) error {
	if err := durable.WriteFile(b.File, rewardScript); err != nil {
		return err
	}
	config := strings.TrimSuffix(filepath.Base(b.File), ".py") + ".yaml"
	return printNext(cmd, b.File, "init "+shellWord(config)+" --data FILE --task program --program "+shellWord(b.File),
		"run --config "+shellWord(config), "studio")
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
	{"json", "the answer is JSON of a certain form"}, {"program", "a function of yours in Python scores the answer"},
	{"demonstrations", "the model learns the answers of the data (SFT)"},
}

func initCommand() *cobra.Command {
	var b beginning
	cmd := &cobra.Command{
		Use:   "init [FILE] --data FILE [--model MODEL] [--task KIND]",
		Short: "Write a first configuration for data of your own, or a reward or an environment in Python",
		Long: "Write a short configuration with comments (default trinity.yaml): a stage that shows the model the answers,\n" +
			"one that lets it learn from rewards, and an evaluation. A fifth of the rows, at most 100, goes to a file\n" +
			"for evaluations alone. On a terminal the command asks for what the flags leave out. FILE may also be\n\n" +
			"  tickets.csv  data: the configuration is tickets.yaml\n" +
			"  reward.py    a function in Python that scores replies, which is written\n" +
			"  env.py       an environment in Python, a class with reset(**row) and step(text): the configuration env.yaml\n" +
			"               trains on it. If there is no such file, it is written, as an example to change\n\n" +
			"The command never overwrites a file.",
		Args: wantAtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := b.named(args); err != nil {
				return err
			}
			switch {
			case filepath.Ext(b.File) != ".py":
				return b.ofData(cmd)
			case b.isEnvironment():
				return b.environment(cmd)
			}
			return b.reward(cmd)
		},
	}
	b.addColumns(cmd)
	var kinds []string
	for _, k := range taskKinds {
		kinds = append(kinds, k[0])
	}
	cmd.Flags().StringVarP(&b.Model, "model", "m", "",
		"model: directory, GGUF file or hub name (default $TRINITY_MODEL_PATH, else "+usualModel+")")
	cmd.Flags().StringVarP(&b.Data, "data", "d", "", "data: a file (.csv, .jsonl, .json, .parquet, .arrow), a directory or a hub name")
	cmd.Flags().StringVarP(&b.Reward, "reward", "r", "", "reward function: trinity list reward_fn; if not given, that of the task")
	cmd.Flags().Float64Var(&b.Minutes, "minutes", 0, "size of the run, by the time that trinity check estimates on this machine")
	cmd.Flags().StringVarP(&b.Task, "task", "t", "", "kind of task: "+strings.Join(kinds, ", ")+"; if not given, what the answers look like")
	cmd.Flags().StringVar(&b.Program, "program", "reward.py", "file of Python whose function reward scores the replies of --task program")
	return cmd
}

// usualModel learns on a laptop.
const usualModel = "HuggingFaceTB/SmolLM2-135M-Instruct"

// ask asks for the model and the data, if a person is there and the flags leave them out.
func (b *beginning) ask(cmd *cobra.Command) error {
	if isTerminal(cmd.InOrStdin()) {
		b.lines = bufio.NewScanner(cmd.InOrStdin())
	}
	usual := cmp.Or(os.Getenv("TRINITY_MODEL_PATH"), usualModel)
	if b.fill(cmd, "Model (a directory, a GGUF file or a hub name; Enter takes "+usual+")", &b.Model); b.Model == "" {
		b.Model = usual
		fmt.Fprintf(cmd.OutOrStdout(), "the model is %s; --model takes another\n", usual)
	}
	if b.Task == theirEnvironment {
		if b.Script == "" {
			return errors.New("--task environment: name the file of Python, such as trinity init env.py")
		}
		return nil
	}
	if b.fill(cmd, "Data (a file, a directory or a hub name)", &b.Data); b.Data == "" {
		return fmt.Errorf("--data is not given: trinity %s", cmd.Use)
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
	text := configTemplate
	if b.Script != "" {
		text = environmentTemplate
	}
	t, err := template.New("config").Funcs(template.FuncMap{"quote": quote, "literal": literal}).Parse(text)
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

// Run returns the directory of the run, which opens as its best model.
func (b *beginning) Run() string { return filepath.Join("checkpoints", "trinity", b.Name()) }

// RLRate returns the learning rate of the stage rl: a low one for a model that the stage before has taught the labels,
// because a higher one took held-out rows away again.
func (b *beginning) RLRate() string {
	if b.Task == "label" && b.Warms {
		return "2e-5"
	}
	return "1e-4"
}

// SFT reports whether the model learns from demonstrations.
func (b *beginning) SFT() bool { return b.Task == "demonstrations" }

// EvalInterval returns the steps between evaluations: at most four in a run, because they take as long as steps.
func (b *beginning) EvalInterval() int { return max(10, (b.Steps+3)/4) }
