package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/dataset"
)

// openData opens the data if it is here. A hub name, or a file that comes later, is read by trinity check.
func (b *beginning) openData(cmd *cobra.Command) error {
	if _, err := os.Stat(b.Data); err != nil {
		return nil
	}
	d, err := dataset.Open(cmd.Context(), b.Data, dataset.Options{})
	if err != nil {
		return err
	}
	if b.rows = d; d.Len() == 0 {
		return fmt.Errorf("%s has no rows", b.Data)
	}
	return nil
}

// Usual names of columns.
var (
	questions = []string{"question", "prompt", "instruction", "problem", "query", "input", "text", "messages", "message", "ticket",
		"sentence", "review", "comment", "body", "description", "content"}
	answers = []string{"answer", "response", "label", "output", "solution", "completion", "target", "team", "category",
		"reward_model.ground_truth", "ground_truth", "final_answer", "class", "intent", "sentiment", "department", "topic", "tag"}
)

// columns chooses the columns of the question and the answer by their names, if the data is here
// and no flag names them.
func (b *beginning) columns(cmd *cobra.Command) error {
	if b.rows == nil {
		b.Prompt, b.Answer = cmp.Or(b.Prompt, "question"), cmp.Or(b.Answer, "answer")
		return nil
	}
	row, err := b.rows.Row(0)
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
		{"question", "prompt-key", &b.Prompt, true, questions},
		{"answer", "response-key", &b.Answer, b.needsAnswer(), answers},
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
		b.Data, b.rows.Len(), has, b.Prompt, answer)
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

// chooseTask takes the kind of task that the answers look like, unless a flag or a person says another.
func (b *beginning) chooseTask(cmd *cobra.Command) error {
	guess, why, err := b.guessTask()
	if err != nil {
		return err
	}
	question := "Task (" + described()
	if guess != "" {
		question += "; Enter takes " + guess
	}
	if b.fill(cmd, question+")", &b.Task); b.Task == "" && guess != "" {
		b.Task = guess
		fmt.Fprintf(cmd.OutOrStdout(), "the task is %s, because %s; --task takes another\n", guess, why)
	}
	if !slices.ContainsFunc(taskKinds, func(k [2]string) bool { return k[0] == b.Task }) {
		return fmt.Errorf("--task is %q: want one of these: %s", b.Task, described())
	}
	return nil
}

// longestLabel is in bytes; longer answers are sentences.
const longestLabel = 60

// guessTask returns the kind of task that the answers look like, and why; "" if they are not here.
func (b *beginning) guessTask() (kind, why string, err error) {
	if b.rows == nil {
		return "", "", nil
	}
	row, err := b.rows.Row(0)
	if err != nil {
		return "", "", err
	}
	prompt, answer := cmp.Or(b.Prompt, column(row, questions)), cmp.Or(b.Answer, column(row, answers))
	if asked, _ := (&trinity.Task{Row: row}).Field(prompt); answer == "" && endsWithReply(asked) {
		return "demonstrations", fmt.Sprintf("the chats in %q have answers", prompt), nil
	}
	if _, ok := (&trinity.Task{Row: row}).Field(answer); !ok && b.Task == "" && b.lines == nil {
		return "", "", fmt.Errorf("%s has the columns %s: name the column of the answer with --response-key; "+
			"without answers, say what the task is with --task json or --task program",
			b.Data, strings.Join(slices.Sorted(maps.Keys(row)), ", "))
	} else if !ok {
		return "", "", nil
	}
	different, objects, plain := map[string]bool{}, 0, 0
	for i := range b.rows.Len() {
		if row, err = b.rows.Row(i); err != nil {
			return "", "", err
		}
		text, err := (&trinity.Task{Row: row}).Text(answer)
		if err != nil {
			return "", "", fmt.Errorf("%s: %w", b.rows.Where(i), err)
		}
		var value any
		_ = json.Unmarshal([]byte(text), &value) // what is no JSON is a text
		switch value.(type) {
		case map[string]any:
			objects++
		case float64:
			plain++
		}
		different[strings.TrimSpace(text)] = true
	}
	n, words := b.rows.Len(), slices.Collect(maps.Keys(different))
	why = fmt.Sprintf("the column %q has %d different values in %d rows", answer, len(words), n)
	few := n >= fewestRows && len(words) <= min(mostLabels, n/2) && longest(words) <= longestLabel
	switch {
	case objects == n:
		return "json", fmt.Sprintf("the column %q has JSON objects", answer), nil
	case plain == n && !(few && len(words) <= fewestRows):
		return "number", fmt.Sprintf("the column %q has numbers", answer), nil
	case few:
		return "label", why, nil
	}
	return "demonstrations", why, nil
}
