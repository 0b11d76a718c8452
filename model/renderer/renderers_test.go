package renderer

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/model/tokenizer"
)

// Bridge gives the ids that the package renderers gives, which writes the turns of each model in code of
// its own. testdata/record_renderers.py records them. Where that package renders the chat anew, as it
// does for every question to Qwen3, ours may still continue a turn in which the template rewrites
// nothing: TestBridgeContinuesTheChat compares that with transformers.
func TestBridgesAreThoseOfRenderers(t *testing.T) {
	tok, err := tokenizer.Load(filepath.Join("testdata", "renderers"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join("testdata", "renderers", "bridges.json"))
	if err != nil {
		t.Fatal(err)
	}
	var records []struct {
		Template    string
		Chat, Reply int // indexes of a chat of the template and of a reply in it
		Ended       bool
		Bridge      []int32 // nil if the chat is rendered anew
	}
	if err := json.Unmarshal(data, &records); err != nil {
		t.Fatal(err)
	}
	chats := map[string][]chatRecord{}
	for _, c := range loadChats(t) {
		chats[c.Template] = append(chats[c.Template], c)
	}
	same := map[string]int{}
	for _, want := range records {
		c := chats[want.Template][want.Chat]
		r := newRenderer(t, tok, templateSource(t, want.Template), c.Kwargs)
		history, more := slices.Clone(c.Messages[:want.Reply+1]), c.Messages[want.Reply+1:]
		more = more[:slices.IndexFunc(more, func(m trinity.Message) bool { return m.Role == "assistant" })]
		asRead(r, &history[want.Reply])
		got, err := r.Bridge(history, more, c.Tools, want.Ended)
		switch {
		case want.Bridge == nil && (err == nil || errors.Is(err, trinity.ErrRewritesHistory)):
		case err != nil || !slices.Equal(got, want.Bridge):
			t.Errorf("%s, chat %d, message %d, ended %v: %v, %v; want %v", want.Template, want.Chat, want.Reply, want.Ended, got, err, want.Bridge)
		default:
			same[want.Template]++
		}
	}
	if same["qwen3"] != 8 || same["llama31"] != 14 {
		t.Errorf("%v bridges are the same, want 8 of Qwen3 and 14 of Llama 3", same)
	}
}
