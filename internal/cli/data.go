package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/dataset"
)

// datasetView is what `data` shows.
type datasetView struct {
	cmd    *cobra.Command
	model  modelFlags
	format trinity.TaskFormat
	shown  int // prompts
}

func dataCommand() *cobra.Command {
	var v datasetView
	var split string
	cmd := &cobra.Command{
		Use:   "data FILE [--prompt-key COLUMN | --prompt-template TEXT] [--model MODEL]",
		Short: "Look at a dataset: rows, columns, lengths and the prompts as the model reads them",
		Long: "Print the rows, columns and lengths of a dataset, and its first prompts. With --model, lengths\n" +
			"are tokens and prompts are in the model's chat template; otherwise lengths are characters.",
		Args: wantArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v.cmd = cmd
			if err := v.format.Validate(); err != nil {
				return errors.New(asFlag("format." + err.Error()))
			}
			d, err := dataset.Open(cmd.Context(), args[0], dataset.Options{Split: split})
			if err != nil {
				return err
			}
			if v.model.path != "" {
				if _, err := v.model.find(cmd.Context()); err != nil {
					return err
				}
				if v.model.text == nil {
					return errors.New("the model has no tokenizer (tokenizer.json)")
				}
			}
			return v.print(args[0], d)
		},
	}
	set := cmd.Flags()
	set.StringVarP(&v.model.path, "model", "m", "", "model whose tokens are counted: directory, GGUF file or hub name")
	set.StringVar(&v.format.PromptKey, "prompt-key", "", "column of the question, or of a list of messages")
	set.StringVar(&v.format.ToolsKey, "tools-key", "tools", "column of the schemas of tools that the prompt offers")
	set.StringVar(&v.format.PromptTemplate, "prompt-template", "", "question with {column} for values")
	set.StringVar(&v.format.SystemTemplate, "system-template", "", "system prompt with {column} for values")
	set.StringVar(&split, "split", "", "split of a dataset directory (default train)")
	set.IntVar(&v.shown, "prompts", 2, "prompts to print")
	return cmd
}

// columnView is what is known of a column.
type columnView struct {
	kinds, values map[string]bool
	lengths       []int // of the values that are not empty
}

// mostValues is the number of different values that are counted.
const mostValues = 1000

// print prints the dataset.
func (v *datasetView) print(name string, d *dataset.Dataset) error {
	columns, prompts := map[string]*columnView{}, []int(nil)
	var first []string
	for i := range d.Len() {
		row, err := d.Row(i)
		if err != nil {
			return err
		}
		for key, value := range row {
			if columns[key] == nil {
				columns[key] = &columnView{kinds: map[string]bool{}, values: map[string]bool{}}
			}
			text, _ := (&trinity.Task{Row: row}).Text(key) // "" for null
			columns[key].add(value, text, v.length)
		}
		if v.format.PromptKey+v.format.PromptTemplate == "" {
			continue
		}
		prompt, err := v.prompt(&trinity.Task{ID: fmt.Sprint(i), Row: row, Format: v.format})
		if err != nil {
			return fmt.Errorf("%s: %s", d.Where(i), asFlag(err.Error()))
		}
		prompts = append(prompts, v.length(prompt))
		if len(first) < v.shown {
			first = append(first, prompt)
		}
	}
	unit := "characters"
	if v.model.text != nil {
		unit = "tokens"
	}
	out := v.cmd.OutOrStdout()
	fmt.Fprintf(out, "%s: %d rows, %d columns\n\n", name, d.Len(), len(columns))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "column\ttype\tempty\tvalues\t%s: median\t95 %%\tlongest\n", unit)
	for _, key := range slices.Sorted(maps.Keys(columns)) {
		columns[key].print(w, key, d.Len())
	}
	if prompts != nil {
		fmt.Fprintf(w, "prompt\t\t\t\t%s\n", quantiles(prompts))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i, prompt := range first {
		fmt.Fprintf(out, "\nprompt of row %d:\n%s\n", i+1, prompt)
	}
	return nil
}

// asFlag replaces the key of a taskset's format by its flag, if a message starts with one.
func asFlag(message string) string {
	key, ok := strings.CutPrefix(message, "format.")
	if !ok {
		return message
	}
	key, rest, _ := strings.Cut(key, ":")
	return "--" + strings.ReplaceAll(key, "_", "-") + ":" + rest
}

// prompt returns a row's prompt as the model reads it, or without a model its messages. A chat that a
// reply ends, as training data has them, is shown as it is.
func (v *datasetView) prompt(task *trinity.Task) (string, error) {
	value, _ := task.Field(v.format.PromptKey)
	messages, err := []trinity.Message(nil), error(nil)
	answered := v.format.PromptTemplate == "" && endsWithReply(value)
	if answered {
		messages, err = task.ReadChat(v.format.PromptKey, value)
	} else {
		messages, err = task.Messages("")
	}
	if err != nil {
		return "", err
	}
	tools, err := task.Tools()
	if err != nil {
		return "", err
	}
	if v.model.text == nil || !v.model.text.HasTemplate() {
		texts := make([]string, len(messages))
		for i, m := range messages {
			if texts[i] = m.Content; len(messages) > 2 {
				texts[i] = m.Role + ": " + m.Content
			}
		}
		return strings.Join(texts, "\n"), nil
	}
	if err := v.model.text.CheckKeys(messages); err != nil {
		return "", err
	}
	tokens, err := v.model.text.Render(messages, tools, !answered)
	if err != nil {
		return "", err
	}
	return v.model.text.Tokenizer().Decode(tokens, false), nil
}

// endsWithReply reports whether a value is a chat with a message of the assistant at its end.
func endsWithReply(value any) bool {
	chat, _ := trinity.ReadChat("", value)
	return len(chat) > 0 && chat[len(chat)-1].Role == "assistant"
}

// length returns the length of a text, in tokens if there is a model, else in characters.
func (v *datasetView) length(text string) int {
	if v.model.text == nil {
		return utf8.RuneCountInString(text)
	}
	return len(v.model.text.Encode(text))
}

// add counts a value, of which text is the text.
func (c *columnView) add(value any, text string, length func(string) int) {
	if value == nil || text == "" {
		return
	}
	c.kinds[kindOf(value)] = true
	if len(c.values) < mostValues {
		c.values[text] = true
	}
	c.lengths = append(c.lengths, length(text))
}

// kindOf names the type of a value.
func kindOf(value any) string {
	switch value.(type) {
	case string:
		return "text"
	case bool:
		return "true or false"
	case []any:
		return "list"
	case map[string]any:
		return "object"
	}
	return "number"
}

// print prints the line of a column.
func (c *columnView) print(w io.Writer, key string, rows int) {
	values := fmt.Sprint(len(c.values))
	if len(c.values) == mostValues {
		values += " or more"
	}
	kinds := strings.Join(slices.Sorted(maps.Keys(c.kinds)), ", ")
	fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", key, kinds, rows-len(c.lengths), values, quantiles(c.lengths))
}

// quantiles returns the median, the 95th percentile and the maximum of lengths as cells of a table.
func quantiles(lengths []int) string {
	if len(lengths) == 0 {
		return "\t\t"
	}
	slices.Sort(lengths)
	n := len(lengths)
	return fmt.Sprintf("%d\t%d\t%d", lengths[n/2], lengths[min(n-1, n*95/100)], lengths[n-1])
}
