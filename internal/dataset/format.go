package dataset

import (
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
)

// Format says how to turn rows into training data.
type Format struct {
	trinity.TaskFormat
	PromptType string // "messages", "plaintext" or "chatpair"; "" means messages
	AllTurns   bool   // schema sft: learn from every turn of the assistant, not only the last
	MaxTokens  int    // longest sequence; 0 for no limit
	Truncate   bool   // cut longer sequences; otherwise they are errors
}

// RowFormatter turns rows into experiences. Only experiences of earlier runs have an ID.
type RowFormatter struct {
	PerRow int  // experiences per row
	Varies bool // a row may give more
	Format func(row map[string]any) ([]*trinity.Experience, error)
}

// Formatter returns the formatter of a schema.
//
// Schema sft learns what an assistant says in a chat that the renderer writes. By f.PromptType the
// chat is
//   - messages: the list at MessagesKey, with the tools at ToolsKey;
//   - plaintext: the user's text, by PromptTemplate or at PromptKey, and the assistant's text at
//     ResponseKey;
//   - chatpair: the messages at PromptKey, then those at ResponseKey.
//
// With f.AllTurns a chat gives an experience, or one for each turn if the chat template writes earlier
// turns otherwise than as replies. A message of weight 0 is not learned.
//
// Schema dpo gives two experiences of a row: the answers at ChosenKey and at RejectedKey to one
// prompt, and the number at MarginKey, if that is set, in Experience.Info of the first. Schema kto
// gives one: the answer at ResponseKey, with the label at LabelKey in Experience.Chosen. By
// f.PromptType the prompt is
//   - messages: the list at MessagesKey. Answers are lists, too, or the assistant's text, and may repeat
//     the prompt. If the row has no MessagesKey, the prompt of a pair is the common beginning of both
//     answers. If it has no ResponseKey, the answer is the assistant's last message;
//   - plaintext: the user's text, by PromptTemplate or at PromptKey; answers are texts;
//   - chatpair: as messages, with the prompt at PromptKey.
//
// If a chat has no system prompt, it gets the row's, else the format's.
//
// Schema cpt learns every token of the text by PromptTemplate or at PromptKey, except the first.
//
// Schema experience takes rows of package archive as they are.
func Formatter(schema string, f Format, r trinity.Renderer) (RowFormatter, error) {
	var read func(row *trinity.Task) ([]*trinity.Experience, error)
	w := writer{f, r}
	switch schema {
	case "sft":
		read = w.demonstration
	case "dpo":
		read = w.preference
	case "kto":
		read = w.labelled
	case "cpt":
		if f.PromptType != "plaintext" {
			return RowFormatter{}, fmt.Errorf("schema cpt reads plain text: set format.prompt_type: plaintext (it is %q)", f.PromptType)
		}
		read = w.plainText
	case "experience":
		read = recorded
	default:
		return RowFormatter{}, fmt.Errorf("no formatter of rows for schema %q: there are sft, dpo, kto, cpt and experience", schema)
	}
	switch f.PromptType {
	case "", "messages", "plaintext", "chatpair":
	default:
		return RowFormatter{}, fmt.Errorf("format.prompt_type %q: want messages, plaintext or chatpair", f.PromptType)
	}
	out := RowFormatter{PerRow: trinity.PerRow(schema), Varies: schema == "sft" && f.AllTurns}
	out.Format = func(row map[string]any) ([]*trinity.Experience, error) {
		exps, err := read(&trinity.Task{Row: row, Format: f.TaskFormat})
		if err != nil {
			return nil, err
		}
		for _, e := range exps {
			if err := f.fit(e); err != nil {
				return nil, err
			}
		}
		return exps, nil
	}
	return out, nil
}

// Label returns what experience i of a row of a schema is to training: chosen, rejected, desirable or
// undesirable; "" if the schema tells no such thing.
func Label(schema string, i int, e *trinity.Experience) string {
	switch {
	case schema == "dpo":
		return []string{"chosen", "rejected"}[min(i, 1)]
	case schema == "kto" && e.Chosen:
		return "desirable"
	case schema == "kto":
		return "undesirable"
	}
	return ""
}

// ReadsChats reports whether the rows of a schema need a chat template.
func ReadsChats(schema string) bool { return schema != "experience" && schema != "cpt" }

// LengthError is a row that is too long for the model.
type LengthError struct {
	Tokens int // of the sequence, or of the prompt if that alone is too long
	Limit  int // tokens: model.max_model_len
	Prompt bool
}

func (e *LengthError) Error() string {
	if e.Prompt {
		return fmt.Sprintf("a prompt of %d tokens leaves nothing to learn of the %d of model.max_model_len: raise it, or remove the row",
			e.Tokens, e.Limit)
	}
	return fmt.Sprintf("%d tokens, more than model.max_model_len %d: raise it, remove the row, or set format.truncate: true to learn "+
		"from the first %d tokens", e.Tokens, e.Limit, e.Limit)
}

// fit cuts a sequence that is too long, and marks it as truncated, or returns an error.
func (f *Format) fit(e *trinity.Experience) error {
	n := f.MaxTokens
	switch {
	case n == 0 || len(e.Tokens) <= n:
		return nil
	case !f.Truncate:
		return &LengthError{Tokens: len(e.Tokens), Limit: n}
	case e.PromptLen >= n:
		return &LengthError{Tokens: e.PromptLen, Limit: n, Prompt: true}
	}
	e.Tokens, e.Mask, e.Truncated = e.Tokens[:n], e.Mask[:n], trinity.ResponseTruncated
	for _, s := range []*[]float32{&e.Logprobs, &e.Advantages, &e.Returns, &e.RefLogprobs, &e.TeacherLogprobs} {
		*s = (*s)[:min(n, len(*s))]
	}
	return e.Check()
}

// recorded returns the experience of an earlier run.
func recorded(row *trinity.Task) ([]*trinity.Experience, error) {
	e, err := experience.FromRow(row.Row)
	if err != nil {
		return nil, err
	}
	return []*trinity.Experience{e}, nil
}

// writer turns rows into experiences.
type writer struct {
	Format
	renderer trinity.Renderer
}

// plainText returns an experience that learns a text, except the first token, which has no
// predecessor.
func (w writer) plainText(row *trinity.Task) ([]*trinity.Experience, error) {
	text, err := promptOf(row)
	if err != nil {
		return nil, err
	}
	tokens := w.renderer.Encode(text)
	if len(tokens) < 2 {
		return nil, fmt.Errorf("%s has %d tokens, want at least 2", w.PromptKey, len(tokens))
	}
	return []*trinity.Experience{{Tokens: tokens, Mask: allButFirst(len(tokens)), PromptLen: 1}}, nil
}

func allButFirst(n int) []bool {
	mask := make([]bool, n)
	for i := range mask {
		mask[i] = i > 0
	}
	return mask
}
