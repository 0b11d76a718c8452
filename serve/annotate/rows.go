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

// Write makes training data of what was decided, in the given directory, with the keys that are the defaults of format; of prompts that are texts they are
// prompt_type plaintext, of chats messages.
//
//   - dpo.jsonl: prompt, chosen, rejected: of each pair of which one answer got more judgements than the other, and than ties. The chosen answer is as those
//     who preferred it rewrote it, the last of them.
//   - kto.jsonl: prompt, response, label: an answer whose mean rating is above 3 is desirable, below it not. Without ratings the better answer is, and the
//     other is not. Of an answer that was rewritten, what it became is desirable, and what it was counts by its ratings alone.
//   - sft.jsonl: prompt, response: the better answer, rewritten or not; of a pair in which none is, what was rewritten by those who called it a tie.
//   - decisions.jsonl: every decision that stands.
//
// Every file is replaced as a whole.
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
