package cli

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/dataset"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/run"
)

// recipe is how a new configuration trains. It follows from the task and the rows of the data.
type recipe struct {
	Purpose                   string
	Train, Test               string // files of rows; Test is "" if the data is not here, or too little to divide
	System                    string // system prompt
	PromptTokens, ReplyTokens int
	Warms                     bool // a stage shows the answers
	Rate                      string
	WarmRows, Epochs          int
	WarmSteps                 int // in place of Epochs, if one pass over the rows takes too long; else 0
	Questions, Steps          int
	Schema                    string // of JSON answers; "" if unknown
}

// Bounds of what init decides by itself.
const (
	mostLabels = 200 // more different answers are no labels
	fewestRows = 10  // fewer rows are not divided
	mostTested = 100 // rows of an evaluation
)

// rowsOf are the rows of the data, with the texts of the question and the answer.
type rowsOf struct {
	rows             []map[string]any
	prompts, answers []string
	labels           []string // all answers, also those of rows that have several
	lists            bool     // a row has a list of answers, of which none is the one to show
}

// readRows reads all rows; none if the data is not here.
func (b *beginning) readRows(cmd *cobra.Command) (r rowsOf, err error) {
	if _, err := os.Stat(b.Data); err != nil { // a hub name, or a file that comes later
		return r, nil
	}
	d, err := dataset.Open(cmd.Context(), b.Data, dataset.Options{})
	if err != nil {
		return r, err
	}
	for i := range d.Len() {
		row, err := d.Row(i)
		if err != nil {
			return r, err
		}
		t := &trinity.Task{Row: row, Format: trinity.TaskFormat{ResponseKey: b.Answer}}
		prompt, err := t.Text(b.Prompt)
		if err != nil {
			return r, fmt.Errorf("%s: %w", d.Where(i), err)
		}
		answer := ""
		if b.Answer != "" {
			if answer, err = t.Text(b.Answer); err != nil {
				return r, fmt.Errorf("%s: %w", d.Where(i), err)
			}
			if b.needsAnswer() && strings.TrimSpace(answer) == "" {
				return r, fmt.Errorf("%s: column %q is empty: give the row an answer, or remove it", d.Where(i), b.Answer)
			}
		}
		r.labels = append(r.labels, answer)
		if v, _ := t.Field(b.Answer); b.Task == "label" || b.Task == "number" {
			if _, isList := v.([]any); isList {
				truths, err := t.Truths()
				if err != nil {
					return r, fmt.Errorf("%s: %w", d.Where(i), err)
				}
				answer, r.lists = truths[0], true
				r.labels = append(r.labels[:len(r.labels)-1], truths...)
			}
		}
		r.rows, r.prompts, r.answers = append(r.rows, row), append(r.prompts, prompt), append(r.answers, answer)
	}
	return r, nil
}

// plan decides how to train, and returns the files that divide the data.
func (b *beginning) plan(cmd *cobra.Command) (files map[string][]byte, err error) {
	data, err := b.readRows(cmd)
	if err != nil {
		return nil, err
	}
	if err := b.checkReward(); err != nil {
		return nil, err
	}
	if err := b.decide(data); err != nil {
		return nil, err
	}
	return b.divide(data)
}

// decide decides how to train. There are no rows if the data is not here.
func (b *beginning) decide(data rowsOf) (err error) {
	b.recipe = recipe{Train: b.Data, Rate: "1e-3", WarmRows: 16, Questions: 8, Steps: 50, Epochs: 10, PromptTokens: 256, ReplyTokens: 256}
	b.Warms = b.Chats || b.Answer != "" && b.Task != "json" && !data.lists
	b.Purpose = fmt.Sprintf("Learns from the questions in %s", b.Data)
	switch b.Task {
	case "label":
		err = b.labels(data.labels)
	case "number":
		hasDigit := func(answer string) bool { return strings.ContainsAny(answer, "0123456789") }
		if len(data.answers) >= fewestRows && !slices.ContainsFunc(data.answers, hasDigit) {
			return fmt.Errorf("--task number: no answer in the column %q of %s has a digit, the first is %q: choose --task label, or another "+
				"column with --response-key", b.Answer, b.Data, data.answers[0])
		}
		b.System = "Solve the problem. End the reply with the answer."
		if n := longest(data.answers); 0 < n && n <= 20 {
			b.System = "Reply with the answer alone: a number or a formula."
		}
	case "json":
		b.schema(data.answers)
	case "demonstrations":
		b.Rate, b.Epochs, b.Purpose = "2e-4", 5, fmt.Sprintf("Learns the answers in %s", b.Data)
	}
	if n := len(data.rows); n > 0 { // tokens have two bytes or more, but in small vocabularies
		b.PromptTokens = max(128, upTo(64, longest(data.prompts)/2+len(b.System)/2+64))
		if b.Warms && b.Task != "label" && b.Task != "program" {
			b.ReplyTokens = min(1024, upTo(32, usual(data.answers)/3+16)) // a token of prose has some four bytes
		}
		b.WarmRows = min(b.WarmRows, n)
		b.Epochs = max(1, min(b.Epochs, 640/n)) // some 40 steps
	}
	return err
}

// labels tells the model which answers there are.
func (b *beginning) labels(answers []string) error {
	b.ReplyTokens, b.Steps = 16, 20
	known := slices.Compact(slices.Sorted(slices.Values(answers)))
	spelled := map[string]string{}
	for _, label := range known {
		same := strings.ToLower(strings.TrimSpace(label))
		if first, ok := spelled[same]; ok {
			return fmt.Errorf("--task label: the column %q of %s has the labels %q and %q, which differ in spaces or case alone: "+
				"write them alike", b.Answer, b.Data, first, label)
		}
		spelled[same] = label
	}
	switch {
	case len(answers) == 0:
		return nil
	case len(known) > mostLabels, len(answers) >= fewestRows && len(known) > len(answers)/2:
		return fmt.Errorf("--task label: the column %q of %s has %d different values in %d rows, and labels are a few that repeat: "+
			"name another column with --response-key, or another kind with --task", b.Answer, b.Data, len(known), len(answers))
	}
	b.ReplyTokens = upTo(8, longest(known)+4)
	b.System = "Answer with one of these and nothing else: " + strings.Join(known, ", ") + "."
	b.Purpose = fmt.Sprintf("Learns to answer the questions in %s with one of %d words", b.Data, len(known))
	return nil
}

// schema describes the form of the answers, if all are objects: the keys that all have, and their types.
func (b *beginning) schema(answers []string) {
	properties := map[string]map[string]string{}
	for i, text := range answers {
		var object map[string]any
		if json.Unmarshal([]byte(text), &object) != nil || object == nil {
			return
		}
		for key, value := range object {
			if i == 0 {
				properties[key] = map[string]string{"type": jsonType(value)}
			}
		}
		maps.DeleteFunc(properties, func(key string, p map[string]string) bool {
			value, ok := object[key]
			return !ok || p["type"] != jsonType(value)
		})
	}
	keys := slices.Sorted(maps.Keys(properties))
	if len(keys) == 0 {
		return
	}
	b.Warms = true
	b.System = "Reply with a JSON object and nothing else. Its keys: " + strings.Join(keys, ", ") + "."
	required := make([]string, len(keys))
	for i, key := range keys {
		required[i] = config.Escape(key)
	}
	schema, err := json.Marshal(map[string]any{"type": "object", "required": required, "properties": properties})
	if err != nil {
		panic(err) // it is made of texts
	}
	b.Schema = string(schema)
}

// jsonType returns the type of a decoded value, as JSON Schema names it.
func jsonType(value any) string {
	switch value.(type) {
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "boolean"
	case []any:
		return "array"
	case nil:
		return "null"
	}
	return "object"
}

// checkReward refuses a --reward that there is not.
func (b *beginning) checkReward() error {
	if b.Reward == "" {
		return nil
	}
	c, err := catalog("reward_fn")
	if err == nil {
		_, err = c.Explain(b.Reward)
	}
	if err != nil {
		return fmt.Errorf("--reward: %w", err)
	}
	return nil
}

// divide keeps a fifth of the rows for evaluations, in files beside the configuration; of labels, a fifth of each. Rows
// with one question stay together. A hash chooses, because rows often have an order.
func (b *beginning) divide(data rowsOf) (map[string][]byte, error) {
	if len(data.rows) < fewestRows {
		return nil, nil
	}
	kind := map[string]string{} // of each question: its label
	for i, prompt := range data.prompts {
		if kind[prompt] = ""; b.Task == "label" {
			kind[prompt] = data.answers[i]
		}
	}
	questions := slices.SortedFunc(maps.Keys(kind), func(x, y string) int {
		hx, hy := sha256.Sum256([]byte(x)), sha256.Sum256([]byte(y))
		return bytes.Compare(hx[:], hy[:])
	})
	tested := everyFifth(questions, kind)
	if len(tested) == 0 { // no label has five questions
		tested = everyFifth(questions, nil)
	}
	files, tests := [2]bytes.Buffer{}, 0
	for i, row := range data.rows {
		side := &files[0]
		if tested[data.prompts[i]] {
			side, tests = &files[1], tests+1
		}
		enc := json.NewEncoder(side)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(row); err != nil {
			return nil, fmt.Errorf("%s, row %d: %w", b.Data, i+1, err)
		}
	}
	if tests == 0 {
		return nil, nil
	}
	stem := strings.TrimSuffix(b.File, filepath.Ext(b.File))
	b.Train, b.Test = stem+"_train.jsonl", stem+"_test.jsonl"
	return map[string][]byte{b.Train: files[0].Bytes(), b.Test: files[1].Bytes()}, nil
}

// everyFifth returns every fifth question of each kind, at most mostTested.
func everyFifth(questions []string, kind map[string]string) map[string]bool {
	seen, fifth := map[string]int{}, map[string]bool{}
	for _, q := range questions {
		if seen[kind[q]]++; seen[kind[q]]%5 == 0 && len(fifth) < mostTested {
			fifth[q] = true
		}
	}
	return fifth
}

// sized writes the files and returns the configuration. With --minutes it sets the number of steps by the estimate
// of trinity check.
func (b *beginning) sized(cmd *cobra.Command, files map[string][]byte) ([]byte, error) {
	for path := range files {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s exists: name another configuration, such as trinity init %s", path, "my_"+filepath.Base(b.File))
		}
	}
	for path, rows := range files {
		if err := durable.WriteFile(path, rows); err != nil {
			return nil, err
		}
	}
	text, err := b.fit()
	if err != nil {
		for path := range files {
			err = errors.Join(err, os.Remove(path))
		}
		return nil, err
	}
	if b.Test != "" {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s (%d rows to learn from) and %s (%d that only evaluations use)\n",
			b.Train, bytes.Count(files[b.Train], []byte("\n")), b.Test, bytes.Count(files[b.Test], []byte("\n")))
	}
	return text, err
}

// fit returns the configuration, with as many steps as fit into the minutes.
func (b *beginning) fit() ([]byte, error) {
	text, err := b.render()
	if err != nil || b.Minutes == 0 {
		return text, err
	}
	const rounds = 3 // an evaluation more or less changes the time
	var took float64
	for range rounds {
		if took, err = b.scale(text); err != nil {
			return nil, err
		}
		if text, err = b.render(); err != nil {
			return nil, err
		}
	}
	if most := 1.1 * 60 * b.Minutes; took > most {
		return nil, fmt.Errorf("--minutes %g is too short: the smallest run takes about %s on this machine; a smaller --model is faster",
			b.Minutes, wait.Text(wait.Seconds(took)))
	}
	return text, nil
}

// scale changes the numbers of steps such that a configuration takes the minutes, and returns the seconds that it
// takes with its present ones.
func (b *beginning) scale(text []byte) (took float64, err error) {
	cfg, err := config.Parse(b.File, text, config.Options{})
	if err != nil {
		return 0, err
	}
	plan, err := cfg.PlanStages(run.Facts)
	if err != nil {
		return 0, err
	}
	for _, s := range plan.Stages {
		if s.Seconds == 0 {
			return 0, fmt.Errorf("--minutes: the time of a step is not known: %s", cmp.Or(s.TimeWhy, "the model or the data is not on this machine"))
		}
		took += s.Seconds
	}
	left := 60 * b.Minutes
	if b.Warms {
		warm, steps := plan.Stages[0].Seconds, plan.Stages[0].TrainSteps
		share := left
		if !b.SFT() {
			share /= 2
		}
		if b.SFT() || warm > share {
			b.scaleWarm(int(steps), share/warm)
		}
		left -= warm
	}
	if !b.SFT() {
		s := plan.Stages[len(plan.Stages)-1]
		evaluation := s.EvalTime / (2 + float64(b.Steps)/10) // at the start, at the end, and every ten steps
		step := (s.Seconds-s.EvalTime)/float64(b.Steps) + evaluation/10
		b.Steps = min(1000, max(2, int((left-2*evaluation)/step)))
	}
	return took, nil
}

// scaleWarm changes the passes over the demonstrations, which are a number of steps, by a factor. If less
// than one pass is left, the configuration counts steps.
func (b *beginning) scaleWarm(steps int, factor float64) {
	if passes := float64(b.Epochs) * factor; b.WarmSteps == 0 && passes >= 1 {
		b.Epochs = min(20, int(passes))
		return
	}
	b.WarmSteps = max(1, int(float64(steps)*factor))
}

// longest returns the bytes of the longest text.
func longest(texts []string) (n int) {
	for _, t := range texts {
		n = max(n, len(t))
	}
	return n
}

// usual returns the bytes that one text of twenty has more of.
func usual(texts []string) int {
	var lengths []int
	for _, t := range texts {
		lengths = append(lengths, len(t))
	}
	slices.Sort(lengths)
	return lengths[len(lengths)*19/20]
}

// upTo rounds a number up to a multiple.
func upTo(multiple, n int) int { return (n + multiple - 1) / multiple * multiple }
