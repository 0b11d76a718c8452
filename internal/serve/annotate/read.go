package annotate

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/internal/safetext"
)

// Options name the keys of prompt and answers in a row.
type Options struct {
	Split, Subset string   // select rows of a directory; in a database Subset is a table or a query
	PromptKey     string   // a text, or a list of messages
	AnswerKeys    []string // texts, or lists of texts
	PerPrompt     int      // most pairs for a prompt with more than two answers; 0 uses each answer once
	Seed          uint64   // chooses the pairs of such a prompt
}

// Data is the result of Read.
type Data struct {
	Pairs []Pair
	Alone int // prompts without two different answers
}

// Read reads the rows of a dataset, or experiences in any form in which a run stores them, such as
// buffer/explorer_output.jsonl. The answers to a prompt of a task are its responses of all steps.
func Read(ctx context.Context, path string, o Options) (Data, error) {
	rows, err := dataset.Open(ctx, path, dataset.Options{Split: o.Split, Subset: o.Subset})
	if err != nil {
		return Data{}, err
	}
	if rows.Len() == 0 {
		return Data{}, fmt.Errorf("%s has no rows", safetext.Hidden(path))
	}
	r := reader{Options: o, tasks: map[string]int{}}
	for i := range rows.Len() {
		row, err := rows.Row(i)
		if err == nil {
			err = r.read(row)
		}
		if err != nil {
			return Data{}, fmt.Errorf("%s: %w", rows.Where(i), err)
		}
	}
	data := r.data()
	if len(data.Pairs) == 0 {
		return Data{}, fmt.Errorf("%s: no prompt has two different answers", safetext.Hidden(path))
	}
	return data, nil
}

// reader gathers the answers to each prompt.
type reader struct {
	Options
	prompts []promptAnswers
	tasks   map[string]int // for experiences: the index of each task's prompt
}

type promptAnswers struct {
	prompt  Prompt
	answers []string
}

func (r *reader) read(row map[string]any) error {
	if row["experience"] != nil || row["tokens"] != nil && row["id"] != nil {
		return r.experience(row)
	}
	task := trinity.Task{Row: row}
	prompt, err := promptAt(&task, r.PromptKey)
	if err != nil {
		return err
	}
	if len(r.prompts) > 0 && (r.prompts[0].prompt.Chat == nil) != (prompt.Chat == nil) {
		return fmt.Errorf("%s: rows before have another kind of prompt: want texts or messages in all of them", r.PromptKey)
	}
	var answers []string
	for _, key := range r.AnswerKeys {
		found, err := answersAt(&task, key)
		if err != nil {
			return err
		}
		answers = append(answers, found...)
	}
	r.prompts = append(r.prompts, promptAnswers{prompt, answers})
	return nil
}

// experience adds the response of an experience to the answers of its task. It skips empty
// responses.
func (r *reader) experience(row map[string]any) error {
	e, err := experience.FromRow(row)
	if err != nil || e.Response == "" {
		return err
	}
	key := e.ID.Task + "\x00" + e.Prompt
	at, ok := r.tasks[key]
	if !ok {
		at = len(r.prompts)
		r.tasks[key] = at
		r.prompts = append(r.prompts, promptAnswers{prompt: Prompt{Text: e.Prompt}})
	}
	r.prompts[at].answers = append(r.prompts[at].answers, e.Response)
	return nil
}

// promptAt returns the prompt at a key: a text or a chat.
func promptAt(task *trinity.Task, key string) (Prompt, error) {
	v, ok := task.Field(key)
	if !ok {
		return Prompt{}, fmt.Errorf("no field %q: name the prompt's field with --prompt-key", key)
	}
	if chat, err := trinity.ReadChat(key, v); chat != nil || err != nil {
		return Prompt{Chat: chat}, err
	}
	if text, isText := v.(string); isText {
		return Prompt{Text: text}, nil
	}
	return Prompt{}, fmt.Errorf("%s holds %s, want text or a list of messages", key, inJSON(v))
}

// inJSON returns the beginning of a value of a row, for errors.
func inJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "a number that JSON has not"
	}
	return fmt.Sprintf("%.60s", text)
}

func answersAt(task *trinity.Task, key string) ([]string, error) {
	v, ok := task.Field(key)
	if !ok {
		return nil, fmt.Errorf("no field %q: name the answers' fields with --answers", key)
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	var out []string
	for _, v := range list {
		text, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("%s holds %s, want text or a list of texts", key, inJSON(v))
		}
		out = append(out, text)
	}
	return out, nil
}

// data pairs the answers. Equal pairs count once.
func (r *reader) data() Data {
	var d Data
	known := map[string]bool{}
	for _, p := range r.prompts {
		pairs := r.pairs(p)
		if len(pairs) == 0 {
			d.Alone++
		}
		for _, pair := range pairs {
			if !known[pair.ID] {
				known[pair.ID] = true
				d.Pairs = append(d.Pairs, pair)
			}
		}
	}
	return d
}

// pairs chooses pairs of different answers so that all answers are in about the same number of
// pairs: rounds of a round-robin tournament by the circle method. Seed and prompt decide the order
// of the answers.
func (r *reader) pairs(p promptAnswers) []Pair {
	answers := different(p.answers)
	n := len(answers)
	hash := fnv.New64a()
	fmt.Fprint(hash, p.prompt.messages())
	order := rand.New(rand.NewPCG(r.Seed, hash.Sum64())).Perm(n)
	if n%2 == 1 {
		order = append(order, n) // the answer that meets it has no match in this round
	}
	most := r.PerPrompt
	if most == 0 {
		most = n / 2
	}
	var out []Pair
	for range len(order) - 1 {
		for i := range len(order) / 2 {
			a, b := order[i], order[len(order)-1-i]
			if a, b = min(a, b), max(a, b); b < n && len(out) < most {
				out = append(out, newPair(p.prompt, answers[a], answers[b]))
			}
		}
		last := len(order) - 1
		order = slices.Concat(order[:1], order[last:], order[1:last])
	}
	return out
}

func different(answers []string) []string {
	var out []string
	for _, a := range answers {
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}
