package studio

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/experience"
)

// item is a row of a source.
type item struct {
	at    string
	where string
	text  []byte              // JSON; valid during the visit
	row   *dataset.Seen       // of a dataset
	exp   *trinity.Experience // of a queue's log
	err   error
}

// read reads rows from the place of the view on, until visit returns false. It returns where to go on, and
// whether no row follows yet.
func (v *view) read(ctx context.Context, visit func(item) bool) (next string, end bool, err error) {
	at, err := placeOf(v.at)
	if err != nil {
		return "", false, err
	}
	if v.Kind == dataset.KindLog {
		return v.readLog(ctx, at, visit)
	}
	rows, err := dataset.Browse(v.Path, v.Options)
	if err != nil {
		return "", false, err
	}
	place, end, err := rows.Rows(ctx, dataset.Place{File: int(at[0]), Offset: at[1], Line: int(at[2])}, func(s dataset.Seen) bool {
		return visit(item{at: placeText(s.Place), where: s.Where, text: s.Text, row: &s, err: s.Err})
	})
	return placeText(place), end, err
}

// readLog reads the log of a queue. A place is the number of a delivery and of an experience in it.
func (v *view) readLog(ctx context.Context, at [3]int64, visit func(item) bool) (next string, end bool, err error) {
	record, index := at[0], int(at[1])
	end, err = buffer.Browse(ctx, v.Path, record, index, func(s buffer.Seen) bool {
		one := item{at: fmt.Sprintf("%d.%d", s.Record, s.Index), where: fmt.Sprintf("delivery %d, experience %d", s.Record, s.Index+1),
			exp: s.Experience, err: s.Err}
		if record, index = s.Record, s.Index+1; s.Last {
			record, index = s.Record+1, 0
		}
		if s.Experience != nil {
			text, err := experience.AppendJSON(nil, s.Experience)
			if one.text = text; err != nil {
				one.err = err
			}
		}
		return visit(one)
	})
	return fmt.Sprintf("%d.%d", record, index), end, err
}

func placeText(p dataset.Place) string { return fmt.Sprintf("%d.%d.%d", p.File, p.Offset, p.Line) }

// placeOf reads a place: up to three numbers between dots. "" is the first row.
func placeOf(text string) (at [3]int64, err error) {
	if text == "" {
		return at, nil
	}
	parts := strings.Split(text, ".")
	for i, part := range parts {
		if i == len(at) {
			return at, mistake{fmt.Errorf("there is no place %.40q", text)}
		}
		if at[i], err = strconv.ParseInt(part, 10, 48); err != nil || at[i] < 0 {
			return at, mistake{fmt.Errorf("there is no place %.40q", text)}
		}
	}
	return at, nil
}

// Limits of what is made tokens of, and of what is shown of a row.
const (
	mostTokenized = 1 << 20  // bytes of JSON of a row
	mostTokens    = 1 << 16  // of an example
	mostText      = 64 << 10 // characters of a row
	mostInList    = 600      // characters of a prompt and a response
)

// example is what a model reads and learns of a row: a row of preferences has two.
type example struct {
	Label          string  `json:"label"` // chosen, rejected, desirable, undesirable, or empty
	ID             string  `json:"id"`    // of an experience
	Prompt         string  `json:"prompt"`
	Response       string  `json:"response"`
	Answer         string  `json:"answer"` // that a taskset has for its reward function
	Cut            bool    `json:"cut"`    // the texts are longer
	PromptLength   int     `json:"prompt_length"`
	ResponseLength *int    `json:"response_length"` // nil without a response
	Learned        int     `json:"learned"`         // tokens that training learns
	Reward         *Number `json:"reward"`

	exp *trinity.Experience // nil if there are no tokens
}

// shorten keeps what a list shows: the rows of a reply may have gigabytes together.
func (e *example) shorten() {
	e.exp = nil
	for _, text := range []*string{&e.Prompt, &e.Response, &e.Answer} {
		short, cut := cutText(*text, mostInList)
		*text, e.Cut = short, e.Cut || cut
	}
}

// cutText returns the first characters of a text, without keeping all of it in memory.
func cutText(text string, most int) (string, bool) {
	n := 0
	for i := range text {
		if n++; n > most {
			return strings.Clone(text[:i]), true
		}
	}
	return text, false
}

// examples returns what a model reads and learns of a row.
func (v *view) examples(found item) ([]example, error) {
	if found.exp != nil {
		return []example{v.experience(found.exp)}, nil
	}
	row, err := found.row.Row()
	if err != nil {
		return nil, err
	}
	if v.Kind != kindExperience && len(found.text) > mostTokenized {
		text, _ := cutText(string(found.text), mostText)
		return []example{{Prompt: text, PromptLength: len(found.text)}},
			fmt.Errorf("the row has %d bytes: over %d it is shown as it is in the file", len(found.text), mostTokenized)
	}
	switch {
	case v.Kind == dataset.KindTasks:
		e, err := v.task(row)
		return []example{e}, err
	case v.Kind == kindExperience && row["experience"] == nil && row["tokens"] != nil && row["prompt"] != nil && row["buffer"] != nil:
		return []example{trimmed(row)}, nil
	}
	format, err := dataset.Formatter(v.Kind, v.Format, v.renders())
	if err != nil {
		return nil, err
	}
	exps, err := format.Format(row)
	if err != nil {
		return nil, err
	}
	var out []example
	for i, e := range exps {
		one := v.experience(e)
		one.Label = dataset.Label(v.Kind, i, e)
		out = append(out, one)
	}
	return out, nil
}

// trimmed returns what a buffer in a database keeps of an experience that no checkpoint needs.
func trimmed(row map[string]any) example {
	text := func(key string) string { s, _ := row[key].(string); return s }
	return example{ID: fmt.Sprintf("%v/%s/%v", row["step"], text("task"), row["run"]), Prompt: text("prompt"), Response: text("response")}
}

// task returns the prompt of a task as the model reads it. A workflow may add words of its own.
func (v *view) task(row map[string]any) (example, error) {
	task := trinity.Task{Row: row, Format: v.Format.TaskFormat}
	messages, err := task.Messages("")
	if err != nil {
		return example{}, err
	}
	tools, err := task.Tools()
	if err != nil {
		return example{}, err
	}
	tokens, err := v.renders().Render(messages, tools, true)
	if err != nil {
		return example{}, err
	}
	e := v.experience(&trinity.Experience{Tokens: tokens, Mask: make([]bool, len(tokens)), PromptLen: len(tokens)})
	e.ResponseLength = nil
	e.Answer = task.Truth()
	return e, nil
}

// experience returns an example of an experience.
func (v *view) experience(e *trinity.Experience) example {
	prompt := min(max(e.PromptLen, 0), len(e.Tokens))
	response := len(e.Tokens) - prompt
	out := example{Prompt: e.Prompt, Response: e.Response, PromptLength: prompt, ResponseLength: &response, Learned: e.TrainedTokens(), exp: e}
	if e.ID.Task != "" {
		out.ID = e.ID.String()
	}
	if text := v.decode(e.Tokens[:prompt]); text != "" {
		out.Prompt = text
	}
	if text := v.decode(e.Tokens[prompt:]); text != "" {
		out.Response = text
	}
	if e.Reward.Valid {
		reward := Number(e.Reward.Value)
		out.Reward = &reward
	}
	return out
}
