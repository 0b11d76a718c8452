package openai

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// unread is a renderer that can read no call.
type unread struct{ bytesRenderer }

func (unread) Read(tokens []int32, _ json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	return unread{}.ReadText(tokens), nil, errors.New("it does not end")
}

// A call that cannot be read is text, and the log says so once, also of a stream.
func TestMalformedCallsAreReported(t *testing.T) {
	const body = `{"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f"}}]`
	for _, stream := range []string{``, `,"stream":true`} {
		var mu sync.Mutex
		var said []string
		served := &Served{Name: "m", Sampler: &letters{}, Renderer: unread{}, Params: trinity.SamplingParams{TopP: 1, MaxTokens: 5}, MaxLen: 20}
		s := &Server{Name: "m", Model: served.Of, Renderer: unread{}, VocabSize: 256, Waiting: 9, Timeout: time.Minute, Token: "t",
			Say: func(line string) {
				mu.Lock()
				defer mu.Unlock()
				said = append(said, line)
			}}
		web := httptest.NewServer(s.Handler())
		for range 2 {
			_, text := ask(t, web, chatPath, "t", body+stream+"}")
			if strings.Contains(text, "tool_calls") || !strings.Contains(text, `"content":"a`) {
				t.Errorf("%s: got %s", stream, text)
			}
		}
		web.Close()
		if len(said) != 2 || !strings.HasPrefix(said[0], "requests have tools") ||
			!strings.HasSuffix(said[1], "the client gets it as text; later ones are not reported: it does not end") {
			t.Errorf("%s: said %q", stream, said)
		}
	}
}
