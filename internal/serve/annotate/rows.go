package annotate

import (
	"bytes"
	"encoding/json"
	"path/filepath"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
)

// Written counts the rows of each file.
type Written struct{ DPO, KTO, SFT, Decisions int }

// Write writes training data into a directory, with the default keys of a taskset's format. Rows
// with text prompts have prompt_type plaintext, rows with chats have messages.
//
//   - dpo.jsonl: prompt, chosen, rejected. A pair gives a row if one answer has more judgements
//     than the other and than ties. chosen has the last edit by an annotator who preferred it.
//   - kto.jsonl: prompt, response, label. An answer with a mean rating above 3 is desirable, and
//     below 3 it is not. Without ratings only the better answer is desirable. The edited text of
//     an answer is desirable, and its original text counts only by its ratings.
//   - sft.jsonl: prompt, response. A pair gives the better answer with its edit. Without a better
//     answer it gives the edits of annotators who called it a tie.
//   - decisions.jsonl: every decision that no annotator has taken back.
//
// Write replaces every file as a whole.
func (b *Book) Write(dir string) (Written, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var dpo, kto, sft, decisions []any
	for at, pair := range b.pairs {
		o := outcomeOf(pair, b.decided[at])
		dpo = append(dpo, o.preference()...)
		kto = append(kto, o.labels()...)
		sft = append(sft, o.demonstrations()...)
		for _, d := range b.decided[at] {
			decisions = append(decisions, d)
		}
	}
	for name, rows := range map[string][]any{"dpo": dpo, "kto": kto, "sft": sft, "decisions": decisions} {
		if err := writeRows(filepath.Join(dir, name+".jsonl"), rows); err != nil {
			return Written{}, err
		}
	}
	return Written{len(dpo), len(kto), len(sft), len(decisions)}, nil
}

func writeRows(path string, rows []any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	for _, r := range rows {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return durable.WriteFile(path, text.Bytes())
}

// row returns a row with the prompt and the other fields.
func (p Prompt) row(fields map[string]any) map[string]any {
	if p.Chat != nil {
		fields["message"] = p.Chat
	} else {
		fields["prompt"] = p.Text
	}
	return fields
}

// demonstration returns a row with a prompt and its answer.
func (p Prompt) demonstration(answer string) map[string]any {
	if p.Chat == nil {
		return p.row(map[string]any{"response": answer})
	}
	chat := append(p.Chat[:len(p.Chat):len(p.Chat)], trinity.Message{Role: "assistant", Content: answer})
	return Prompt{Chat: chat}.row(map[string]any{})
}
