package examples

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/annotate"
)

// What people decide is what sft, dpo and kto train on, as texts and as chats.
func TestAnnotationsAreTrainedOn(t *testing.T) {
	t.Chdir("..")
	data, err := annotate.Read(t.Context(), "examples/annotate/answers.jsonl", annotate.Options{PromptKey: "prompt", AnswerKeys: []string{"answer1", "answer2"}})
	if err != nil {
		t.Fatal(err)
	}
	for kind, prompt := range map[string]func(annotate.Prompt) annotate.Prompt{"plaintext": asIs, "messages": asChat} {
		t.Run(kind, func(t *testing.T) {
			pairs := make([]annotate.Pair, len(data.Pairs))
			for i, p := range data.Pairs {
				pairs[i] = annotate.Pair{ID: p.ID, Prompt: prompt(p.Prompt), Answers: p.Answers}
			}
			out := decided(t, pairs)
			var overrides []string
			for i, file := range []string{"sft", "dpo", "kto"} {
				buffer := fmt.Sprintf("stages.%d.buffer.trainer_input.experience_buffer.", i)
				overrides = append(overrides, buffer+"path="+filepath.Join(out, file+".jsonl"), buffer+"format.prompt_type="+kind, fmt.Sprintf("stages.%d.buffer.total_steps=2", i))
			}
			records := runExampleIn(t, t.TempDir(), "annotate/annotate.yaml", overrides...)
			for _, name := range []string{"sft", "dpo", "kto"} {
				losses := curve(records, "actor/"+name+"_loss")
				if len(losses) != 2 || !(losses[0] > 0) || math.IsInf(losses[0], 0) {
					t.Errorf("%s: losses %v", name, losses)
				}
			}
		})
	}
}

func asIs(p annotate.Prompt) annotate.Prompt { return p }

func asChat(p annotate.Prompt) annotate.Prompt {
	return annotate.Prompt{Chat: []trinity.Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: p.Text}}}
}

// decided has two annotators judge all pairs, one of whom rewrites an answer, and returns the directory of what is made of it.
func decided(t *testing.T, pairs []annotate.Pair) string {
	t.Helper()
	out := t.TempDir()
	book, err := annotate.Open(out, pairs, annotate.Terms{Overlap: 2, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	rewritten := "Use `<b>`."
	for _, who := range []string{"ann", "bob"} {
		for {
			shown, err := book.Next(who)
			if err != nil {
				t.Fatal(err)
			}
			if shown == nil {
				break
			}
			d := annotate.Decision{Pair: shown.ID, Annotator: who, Verdict: annotate.First}
			if who == "bob" && shown.ID == pairs[4].ID {
				d.Edits[0] = &rewritten
			}
			if err := book.Decide(d); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n, err := book.Write(out); err != nil || n != (annotate.Written{DPO: 8, KTO: 16, SFT: 8, Decisions: 16}) {
		t.Fatalf("%+v, %v", n, err)
	}
	return out
}
