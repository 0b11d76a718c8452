package cli

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/reward/mathequal"
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

	notes []string // lines for people
}

// note adds a line for people.
func (r *recipe) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// Bounds of what init decides by itself.
const (
	mostLabels = 200 // more different answers are no labels
	fewestRows = 10  // fewer rows are not divided
	mostTested = 100 // rows of an evaluation
	longRun    = 30  // minutes of a run that people rather begin with
)

// texts are the texts of the question and the answer of all rows.
type texts struct {
	prompts, answers []string
	labels           []string // all answers, also those of rows that have several
	lists            bool     // a row has a list of answers, of which none is the one to show
	systems          int      // rows with a system message of their own
	objects          bool     // an answer of --task json is no text, and demonstrations are texts
}

// readTexts reads the texts of all rows; none if the data is not here.
func (b *beginning) readTexts() (r texts, err error) {
	if b.rows == nil {
		return r, nil
	}
	d := b.rows
	for i := range d.Len() {
		row, err := d.Row(i)
		if err != nil {
			return r, err
		}
		t := &trinity.Task{Row: row, Format: trinity.TaskFormat{PromptKey: b.Prompt, ResponseKey: b.Answer}}
		asked, _ := t.Field(b.Prompt)
		chat, err := trinity.ReadChat(b.Prompt, asked)
		if err != nil {
			return r, fmt.Errorf("%s: %w", d.Where(i), err)
		}
		if len(chat) > 0 && chat[0].Role == "system" {
			r.systems++
		}
		prompt, err := t.Text(b.Prompt)
		if err != nil {
			return r, fmt.Errorf("%s: %w", d.Where(i), err)
		}
		if strings.TrimSpace(prompt) == "" {
			return r, fmt.Errorf("%s: column %q is empty: give the row a question, or remove it", d.Where(i), b.Prompt)
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
		v, _ := t.Field(b.Answer)
		if _, isText := v.(string); b.Task == "json" && b.Answer != "" && !isText {
			r.objects = true
		}
		if b.Task == "label" || b.Task == "number" {
			if _, isList := v.([]any); isList {
				truths, err := t.Truths()
				if err != nil {
					return r, fmt.Errorf("%s: %w", d.Where(i), err)
				}
				answer, r.lists = truths[0], true
				r.labels = append(r.labels[:len(r.labels)-1], truths...)
			}
		}
		r.prompts, r.answers = append(r.prompts, prompt), append(r.answers, answer)
	}
	return r, nil
}

// plan decides how to train, and returns the files that divide the data.
func (b *beginning) plan() (files map[string][]byte, err error) {
	data, err := b.readTexts()
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
func (b *beginning) decide(data texts) (err error) {
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
	if b.System != "" && data.systems > 0 {
		b.note("%d of %d rows have a system message of their own, which stands in place of this one: %s", data.systems, b.rows.Len(), b.System)
	}
	if n := len(data.prompts); n > 0 {
		b.PromptTokens = b.promptTokens(longest(data.prompts) + len(b.System))
		if b.Warms && b.Task != "label" && b.Task != "program" {
			b.ReplyTokens = min(1024, upTo(32, usual(data.answers)/3+16)) // a token of prose has some four bytes
		}
		b.WarmRows = min(b.WarmRows, n)
		b.Epochs = max(1, min(b.Epochs, 640/n)) // some 40 steps
	}
	return err
}

// promptTokens returns room for a prompt of that many bytes.
func (b *beginning) promptTokens(bytes int) int {
	least := 2 // bytes of a token, but in small vocabularies
	if c, err := model.ReadConfig(b.Model); err == nil && c.VocabSize < 2000 {
		least = 1
	}
	return max(128, upTo(64, bytes/least+64))
}

// labels tells the model which answers there are.
func (b *beginning) labels(answers []string) error {
	b.ReplyTokens, b.Steps = 16, 20
	b.Rate, b.WarmRows = "5e-4", 8 // many small steps, because few rows make few larger ones
	if len(answers) == 0 {
		return nil
	}
	known := b.spellings(answers)
	if len(known) > mostLabels || len(answers) >= fewestRows && len(known) > len(answers)/2 {
		return fmt.Errorf("--task label: the column %q of %s has %d different values in %d rows, and labels are a few that repeat: "+
			"name another column with --response-key, or another kind with --task",
			b.Answer, b.Data, len(slices.Compact(slices.Sorted(slices.Values(answers)))), len(answers))
	}
	b.ReplyTokens = upTo(8, longest(known)+4)
	b.System = "Answer with one of these and nothing else: " + strings.Join(known, ", ") + "."
	b.Purpose = fmt.Sprintf("Learns to answer the questions in %s with one of %d words", b.Data, len(known))
	return nil
}

// spellings returns the labels among the answers, of those that the reward takes as equal the most frequent
// one. It stops at more than mostLabels.
func (b *beginning) spellings(answers []string) (known []string) {
	times := map[string]int{}
	for _, a := range answers {
		times[a]++
	}
	var equal, alike []string
	for _, a := range slices.SortedFunc(maps.Keys(times), func(x, y string) int {
		return cmp.Or(cmp.Compare(times[y], times[x]), cmp.Compare(x, y))
	}) {
		isEqual := func(k string) bool { return b.Reward == "" && mathequal.Equal(a, k) }
		isAlike := func(k string) bool { return strings.EqualFold(strings.TrimSpace(a), strings.TrimSpace(k)) }
		if i := slices.IndexFunc(known, isEqual); i >= 0 {
			equal = append(equal, fmt.Sprintf("%q and %q", known[i], a))
			continue
		}
		if i := slices.IndexFunc(known, isAlike); i >= 0 {
			alike = append(alike, fmt.Sprintf("%q and %q", known[i], a))
		}
		if known = append(known, strings.TrimSpace(a)); len(known) > mostLabels {
			return known
		}
	}
	if equal != nil {
		b.note("the reward takes these labels as equal, and the prompt names the first: %s", strings.Join(equal, "; "))
	}
	if alike != nil {
		b.note("these labels differ in case or spaces alone, and may be one: %s", strings.Join(alike, "; "))
	}
	slices.Sort(known)
	return slices.Compact(known)
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
func (b *beginning) divide(data texts) (map[string][]byte, error) {
	if b.rows == nil {
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
	if len(tested) == 0 || len(data.prompts) < fewestRows {
		b.note("no rows are kept for evaluations: a test file needs %d rows with 5 different questions, and %s has %d with %d",
			fewestRows, b.Data, len(data.prompts), len(kind))
		if tested = nil; !data.objects {
			return nil, nil
		}
	}
	var files [2]bytes.Buffer
	for i := range data.prompts {
		row, err := b.rows.Row(i)
		if err != nil {
			return nil, err
		}
		side := &files[0]
		if tested[data.prompts[i]] {
			side = &files[1]
		}
		if data.objects {
			row[b.Answer] = data.answers[i]
		}
		enc := json.NewEncoder(side)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(row); err != nil {
			return nil, fmt.Errorf("%s, row %d: %w", b.Data, i+1, err)
		}
	}
	stem := strings.TrimSuffix(b.File, filepath.Ext(b.File))
	b.Train = stem + "_train.jsonl"
	if tested == nil {
		return map[string][]byte{b.Train: files[0].Bytes()}, nil
	}
	b.Test = stem + "_test.jsonl"
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
